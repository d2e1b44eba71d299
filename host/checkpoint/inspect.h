// `host inspect`: what a checkpoint, or a directory of them, holds.
#pragma once

#include <filesystem>
#include <ostream>

namespace cleave {

/// `folder` is a checkpoint or a directory that holds some (all are shown, newest first): step,
/// tokens, layout, sizes, verification; for one also its tensors and slices. A table, or JSON: an
/// array of objects. Returns whether every checkpoint verifies. ConfigError when there is none.
bool inspect(const std::filesystem::path& folder, bool json, std::ostream& out);

/// The checkpoint itself (verified, ConfigError when it is damaged), or the newest in a directory
/// that verifies (ConfigError when none does; those that are passed over are named on `out`); for
/// programs that take either.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& folder, std::ostream& out);

}  // namespace cleave
