// What a checkpoint says about itself: manifest.json, written last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/slice.h"
#include "huggingface/json_file.h"

namespace cleave {

inline constexpr char kManifestName[] = "manifest.json";

/// A slice of a tensor, as bytes of a file.
struct StoredSlice {
  Slice slice;
  std::string file;      ///< "rank-00000.safetensors"
  int64_t offset_bytes;  ///< in the file
  uint64_t checksum;     ///< xxh3 of its bytes
};

/// A moment of the optimizer is stored under these in front of the parameter's name.
inline constexpr std::string_view kFirstMoment = "exp_avg.", kSecondMoment = "exp_avg_sq.";
/// Whether a tensor of this name is a parameter's weights, not a moment.
bool is_weight(const std::string& tensor);

/// A parameter's weights, under its own name; a moment of the optimizer ("exp_avg.<name>"); or a
/// strategy's state ("<strategy>.<state>.<name>"), whose first dim counts the ranks that have their
/// own.
struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;       ///< global; all are float32
  std::vector<StoredSlice> slices;  ///< disjoint, and together all of the tensor
};

struct StoredFile {
  std::string name;
  int64_t size_bytes;
  int64_t header_bytes;      ///< before the first tensor's bytes
  uint64_t header_checksum;  ///< xxh3 of those
};

/// The part of the config that decides which samples a step reads; a run that resumes must have the
/// same.
struct DataCursor {
  int64_t next_sample;  ///< sequence number of the first sample that is not used yet
  int64_t num_tokens;   ///< of the data
  uint64_t checksum;    ///< xxh3 of some of them, spread over the data
  int64_t sequence_length;
  int64_t global_batch_size;
  bool shuffle;
  uint64_t seed;
  int64_t ignore_token;  ///< -1: none
  bool operator==(const DataCursor&) const = default;
};

struct Manifest {
  static constexpr int64_t kFormatVersion = 1;

  int64_t step;    ///< optimizer updates done
  int64_t tokens;  ///< read by them
  int world_size;
  std::string mesh;  ///< "pipeline 2 x data 2 x tensor 2"
  std::vector<std::string> strategies;
  std::string dtype;     ///< of compute
  uint64_t weight_seed;  ///< train.seed; no generator has a state beside it and the cursor
  DataCursor data;
  Json optimizer;      ///< name and hyperparameters
  Json model;          ///< config.json
  std::string config;  ///< the effective TOML
  std::map<std::string, std::string> versions;
  std::vector<StoredFile> files;
  std::vector<StoredTensor>
      tensors;  ///< weights in the order of the model, moments, strategies' states

  /// nullptr when there is none.
  const StoredTensor* find(const std::string& name) const;
  int64_t size_bytes() const;  ///< of all files
};

/// "<strategy>.<state>" of a tensor that is the state of one of the manifest's strategies; "" of
/// any other.
std::string extra_state_of(const Manifest& manifest, const std::string& tensor);

/// The text of manifest.json; its last key is the xxh3 of the rest.
std::string to_text(const Manifest& manifest);

/// ConfigError that begins with `where` when the text is not JSON, not a manifest, of a newer
/// format, not what its checksum says, or when a tensor's slices overlap, leave elements out or lie
/// outside of their files.
Manifest parse_manifest(const std::string& where, const std::string& text);

}  // namespace cleave
