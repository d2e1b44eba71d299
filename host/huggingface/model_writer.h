// Writes a folder that transformers loads: config.json and safetensors, sharded above a size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "huggingface/safetensors.h"
#include "huggingface/weight_folder.h"

namespace cleave {

/// What is written besides the values.
struct ModelFiles {
  std::string config;                   ///< config.json
  std::vector<ExpectedTensor> tensors;  ///< in the order in which they will come
  ElementType type;                     ///< float32 or bfloat16
  /// A file gets no further tensor that would make it larger.
  int64_t most_shard_bytes = 5'000'000'000;
};

/// ConfigError when `folder` is there and not empty, or its parent (made where missing) can't be
/// written. To be called before the work whose result the folder is to hold.
void check_export_folder(const std::filesystem::path& folder);

/// Everything goes to a folder beside the target, which is renamed at the end; without publish() it
/// is removed. Holds no more than a small part of a tensor.
class ModelWriter {
 public:
  ModelWriter(std::filesystem::path folder, ModelFiles files);
  ~ModelWriter();
  ModelWriter(const ModelWriter&) = delete;
  ModelWriter& operator=(const ModelWriter&) = delete;

  /// All values of the next tensor. RuntimeError when the disk is full or fails.
  void append(std::span<const float> values);
  /// After all tensors: the folder is on the disk and has its name.
  void publish();
  int64_t total_bytes() const { return total_bytes_; }

 private:
  void plan_shards();
  std::string shard_name(size_t shard) const;
  void open_shard(size_t shard);
  void write_text(const std::string& name, const std::string& text) const;
  std::string index_text() const;

  std::filesystem::path folder_;
  std::filesystem::path temporary_;
  ModelFiles files_;
  std::vector<size_t> shard_begins_;  // first tensor of each shard
  int64_t total_bytes_ = 0;
  size_t next_tensor_ = 0;
  size_t next_shard_ = 0;
  std::unique_ptr<SafetensorsWriter> writer_;
};

}  // namespace cleave
