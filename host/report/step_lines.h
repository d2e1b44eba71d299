// Files with a line per step, which a resumed run goes on with.
#pragma once

#include <cstdint>
#include <filesystem>

namespace cleave {

/// Cuts `file` after its last line {"step":<n>,... with n <= `step`, in ascending order: what a
/// killed run wrote later, or half, goes. Nothing happens when there is no such file. RuntimeError
/// when it can't be cut.
void keep_lines_until(const std::filesystem::path& file, int64_t step);

}  // namespace cleave
