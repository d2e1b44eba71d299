// Whether the slices of a manifest are what they must be: each tensor, and each file, once.
#pragma once

#include <string>

#include "checkpoint/manifest.h"

namespace cleave {

/// ConfigError that begins with `where` when a slice lies outside of its tensor or file, when
/// slices of a tensor or of a file overlap, or when they leave something out; also when a tensor or
/// a file is there twice, or a tensor has more than 2^63 - 1 bytes. Takes memory for one tensor's
/// or file's slices, and n log n time for n slices of equal boxes; boxes that differ without being
/// apart are compared in pairs (of strategies here, none are).
void check_coverage(const std::string& where, const Manifest& manifest);

}  // namespace cleave
