// Small checkpoints, written as the ranks of a mesh would, with values that follow from a tensor's
// name and an element's place in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/manifest.h"
#include "checkpoint/slice.h"
#include "cleave/placement.h"
#include "support/temporary_folder.h"

namespace cleave::test {

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& bytes);

/// What the ConfigError or RuntimeError of `action` says; "" when there is none.
std::string error_of(const std::function<void()>& action);

/// Row-major numbers, in the tensor, of a slice's elements; counted one by one.
std::vector<int64_t> elements_of(const Slice& slice, const std::vector<int64_t>& shape);

/// Exact in float32. `version` makes the values of one step differ from another's.
float value_of(const std::string& tensor, int64_t element, int64_t version);
std::vector<float> values_of(const std::string& tensor, const std::vector<int64_t>& shape,
                             const Slice& slice, int64_t version);

/// Ranks, and what each has of a tensor.
struct Layout {
  std::string name;
  Mesh mesh;
  std::function<Placement(const std::vector<int64_t>& shape, int rank)> place;
};

Layout one_rank();
Layout replicated(int ranks);
Layout row_pieces(int ranks);
Layout flat_pieces(int ranks);
/// pipeline 2 x data 2 x tensor 2: the last dim cut by tensor, all of it on pipeline rank 1, and in
/// each box flat pieces by data.
Layout cut_three_ways();
/// Copies on the first and last of 3 pipeline ranks (a tied embedding), the first dim cut by
/// tensor.
Layout tied();
std::vector<Layout> all_layouts();

/// A parameter of 2 dims, one of 1, and the two moments of each.
std::vector<StoredTensor> tiny_tensors();

/// All but the files and slices.
Manifest tiny_manifest(const Layout& layout, int64_t step);

/// Writes the shards of a step to `folder` and returns the manifest with them.
Manifest write_shards(const std::filesystem::path& folder, const Layout& layout, int64_t step);
/// Through the directory, as a run does; returns the checkpoint's folder.
std::filesystem::path save(CheckpointDirectory& directory, const Layout& layout, int64_t step);
/// In a run of its own, which is over.
void save_steps(const std::filesystem::path& directory, const Layout& layout,
                const std::vector<int64_t>& steps);

/// Reads all tensors and compares them with the values of `step`.
void expect_values(const std::filesystem::path& checkpoint, int64_t step);

}  // namespace cleave::test
