// One rank's file of a checkpoint.
#pragma once

#include <atomic>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest.h"

namespace cleave {

/// A slice that is about to be written.
struct ShardPart {
  std::string name;  ///< the tensor's
  Slice slice;
  std::span<const float> values;
};

/// What was written: to be joined into the manifest.
struct WrittenShard {
  StoredFile file;
  std::vector<std::pair<std::string, StoredSlice>> slices;  ///< by tensor name
};

/// "rank-00003.safetensors"
std::string shard_file_name(int rank);

/// Writes the parts (empty ones are left out) to `folder`/`name`, a safetensors file, and syncs it.
/// RuntimeError when the
/// disk is full or fails, or once `cancelled` is set (looked at every few MiB).
WrittenShard write_shard(const std::filesystem::path& folder, const std::string& name,
                         const std::vector<ShardPart>& parts, const std::atomic<bool>& cancelled);

/// As text for other ranks, and back. ConfigError when the text is another.
std::string to_text(const WrittenShard& shard);
WrittenShard parse_shard(const std::string& text);

/// Adds the files and slices of all ranks to a manifest whose `tensors` have names and shapes.
void add_shards(Manifest& manifest, const std::vector<WrittenShard>& shards);

}  // namespace cleave
