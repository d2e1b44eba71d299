// JSON as it stands in model folders: parsed strictly, with errors that name the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace cleave {

/// Keeps the order of keys, so that a file that is written again looks as before.
using Json = nlohmann::ordered_json;

/// An object. ConfigError that begins with `where` when `text` is not JSON, not an object, or an
/// object in it has a key twice.
Json parse_json_object(const std::string& where, std::string_view text);
/// The same of a whole file; ConfigError when it can't be read or has more than `most_bytes`.
Json read_json_object(const std::filesystem::path& file, int64_t most_bytes);

/// `value` for a message: JSON, on one line, cut when it is long.
std::string show(const Json& value);

/// A name in quotes for a message; control characters escaped.
std::string quote(const std::string& name);

}  // namespace cleave
