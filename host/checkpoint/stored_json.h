// Files and slices of a checkpoint as JSON: in the manifest, and between ranks.
#pragma once

#include <string>

#include "checkpoint/manifest.h"

namespace cleave {

Json json_of(const StoredFile& file);
Json json_of(const StoredSlice& slice);

/// ConfigError that begins with `where` when a key is missing, unknown, of a wrong type or value.
StoredFile parse_file(const std::string& where, const Json& value);
StoredSlice parse_slice(const std::string& where, const Json& value);

}  // namespace cleave
