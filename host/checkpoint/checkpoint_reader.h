// A complete checkpoint, read in parts: nothing but the manifest is in memory.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"

namespace cleave {

/// The manifest alone, whatever the state of the files. ConfigError when the folder is no complete
/// checkpoint (it has no manifest), or when the manifest is damaged.
Manifest read_manifest(const std::filesystem::path& folder);

/// Reads back what a rank has just written and compares it with its checksums. ConfigError naming
/// file and offset.
void verify_shard(const std::filesystem::path& folder, const WrittenShard& shard);

class CheckpointReader {
 public:
  /// Reads the manifest of the folder and compares the files' sizes with it. ConfigError with the
  /// file when it is no complete checkpoint (no manifest), or the two contradict each other.
  explicit CheckpointReader(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  /// Compares part `part` of `parts` (files' headers and slices, dealt out by bytes) with their
  /// checksums; all parts together read every byte once. ConfigError naming file and offset.
  void verify(int part = 0, int parts = 1) const;

  /// Fills `out` (slice.num_elements()) with that part of the tensor. Reads what it needs, a MiB at
  /// a time. The tensor must be there. ConfigError when a file can't be read.
  void read(const std::string& tensor, const Slice& slice, float* out) const;

 private:
  std::filesystem::path folder_;
  Manifest manifest_;
};

}  // namespace cleave
