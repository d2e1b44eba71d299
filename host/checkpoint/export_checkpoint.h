// From a checkpoint to a Hugging Face folder, without the ranks that wrote it.
#pragma once

#include <filesystem>
#include <ostream>
#include <string>

namespace cleave {

/// Writes the weights of `checkpoint` (a checkpoint, or a directory: its newest) to `to`, converted
/// to `dtype` (float32 | bfloat16); one tensor is in memory. ConfigError when either folder won't
/// do or the checkpoint is damaged.
void export_checkpoint(const std::filesystem::path& checkpoint, const std::filesystem::path& to,
                       const std::string& dtype, std::ostream& out);

}  // namespace cleave
