#include "checkpoint_fixture.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/shard_file.h"
#include "cleave/error.h"

namespace cleave::test {

namespace {

/// Rank i of n has the i-th of n nearly equal parts.
std::pair<int64_t, int64_t> part_of(int64_t size, int i, int n) {
  return {size * i / n, size * (i + 1) / n};
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

std::vector<int64_t> elements_of(const Slice& slice, const std::vector<int64_t>& shape) {
  const std::vector<int64_t> extents = slice.box.shape();
  std::vector<int64_t> elements;
  for (int64_t i = slice.begin; i < slice.end; ++i) {
    int64_t element = 0, stride = 1, rest = i;
    for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
      element += (slice.box.begin[d] + rest % extents[d]) * stride;
      rest /= extents[d];
    }
    elements.push_back(element);
  }
  return elements;
}

float value_of(const std::string& tensor, int64_t element, int64_t version) {
  const auto name = static_cast<int64_t>(std::hash<std::string>()(tensor) % 61);
  return static_cast<float>(name * 100'000 + element * 100 + version % 100);
}

std::vector<float> values_of(const std::string& tensor, const std::vector<int64_t>& shape,
                             const Slice& slice, int64_t version) {
  std::vector<float> values;
  for (const int64_t element : elements_of(slice, shape))
    values.push_back(value_of(tensor, element, version));
  return values;
}

Layout one_rank() {
  return {"one rank", Mesh({{"data", 1}}), [](const std::vector<int64_t>& shape, int) {
            return Placement{Box::whole(shape), {}, {}};
          }};
}

Layout replicated(int ranks) {
  Layout layout = one_rank();
  layout.name = message("copies on ", ranks);
  layout.mesh = Mesh({{"data", ranks}});
  return layout;
}

Layout row_pieces(int ranks) {
  return {message("rows on ", ranks), Mesh({{"data", ranks}}),
          [ranks](const std::vector<int64_t>& shape, int rank) {
            const auto [begin, end] = part_of(shape[0], rank, ranks);
            return Placement{Box::whole(shape),
                             Piece{Piece::Unit::row, begin, end},
                             {{"data", AxisKind::shard}}};
          }};
}

Layout flat_pieces(int ranks) {
  return {
      message("elements on ", ranks), Mesh({{"data", ranks}}),
      [ranks](const std::vector<int64_t>& shape, int rank) {
        const Box box = Box::whole(shape);
        const auto [begin, end] = part_of(box.num_elements(), rank, ranks);
        return Placement{box, Piece{Piece::Unit::element, begin, end}, {{"data", AxisKind::shard}}};
      }};
}

Layout cut_three_ways() {
  const Mesh mesh({{"pipeline", 2}, {"data", 2}, {"tensor", 2}});
  return {"pipeline x data x tensor", mesh, [mesh](const std::vector<int64_t>& shape, int rank) {
            Box box = Box::whole(shape);
            const auto [begin, end] = part_of(shape.back(), mesh.coordinate(rank, "tensor"), 2);
            box.begin.back() = begin;
            box.end.back() = end;
            if (mesh.coordinate(rank, "pipeline") == 0) box.end[0] = box.begin[0];
            const auto [first, last] =
                part_of(box.num_elements(), mesh.coordinate(rank, "data"), 2);
            return Placement{box,
                             Piece{Piece::Unit::element, first, last},
                             {{"pipeline", AxisKind::shard},
                              {"tensor", AxisKind::shard},
                              {"data", AxisKind::shard}}};
          }};
}

Layout tied() {
  const Mesh mesh({{"pipeline", 3}, {"data", 2}, {"tensor", 2}});
  return {
      "tied", mesh, [mesh](const std::vector<int64_t>& shape, int rank) {
        Box box = Box::whole(shape);
        const auto [begin, end] = part_of(shape[0], mesh.coordinate(rank, "tensor"), 2);
        box.begin[0] = begin;
        box.end[0] = mesh.coordinate(rank, "pipeline") == 1 ? begin : end;
        return Placement{box, {}, {{"pipeline", AxisKind::subset}, {"tensor", AxisKind::shard}}};
      }};
}

std::vector<Layout> all_layouts() {
  return {one_rank(),     replicated(3),    row_pieces(3), flat_pieces(2),
          flat_pieces(5), cut_three_ways(), tied()};
}

std::vector<StoredTensor> tiny_tensors() {
  std::vector<StoredTensor> tensors;
  for (const std::string& prefix :
       {std::string(), std::string(kFirstMoment), std::string(kSecondMoment)}) {
    tensors.push_back({prefix + "model.embed_tokens.weight", {13, 7}, {}});
    tensors.push_back({prefix + "model.norm.weight", {7}, {}});
  }
  return tensors;
}

Manifest tiny_manifest(const Layout& layout, int64_t step) {
  Manifest manifest{};
  manifest.step = step;
  manifest.tokens = step * 12;
  manifest.world_size = layout.mesh.world_size();
  manifest.mesh = layout.mesh.to_string();
  manifest.strategies = {"one", "two"};
  manifest.dtype = "bfloat16";
  manifest.weight_seed = UINT64_MAX;
  manifest.data = {step * 3, 1000, 77, 4, 3, true, 5, -1};
  manifest.optimizer = {{"name", "adamw"}, {"lr", 0.1}, {"epsilon", 1e-8}};
  manifest.model = {{"vocab_size", 13}, {"hidden_size", 7}, {"torch_dtype", "float32"}};
  manifest.config = "[train]\nsteps = 5\n";
  manifest.versions = {{"cleave", "0.1"}, {"torch", "2.11.0"}};
  manifest.tensors = tiny_tensors();
  return manifest;
}

Manifest write_shards(const std::filesystem::path& folder, const Layout& layout, int64_t step) {
  Manifest manifest = tiny_manifest(layout, step);
  const std::atomic<bool> cancelled = false;
  std::vector<WrittenShard> shards;
  for (int rank = 0; rank < layout.mesh.world_size(); ++rank) {
    std::vector<std::vector<float>> values;
    std::vector<ShardPart> parts;
    for (const auto& [name, shape, slices] : manifest.tensors) {
      const Slice slice = saved_slice(layout.place(shape, rank), layout.mesh, rank);
      values.push_back(values_of(name, shape, slice, step));
      parts.push_back({name, slice, {}});
    }
    for (size_t i = 0; i < parts.size(); ++i) parts[i].values = values[i];
    shards.push_back(write_shard(folder, shard_file_name(rank), parts, cancelled));
  }
  add_shards(manifest, shards);
  return manifest;
}

std::filesystem::path save(CheckpointDirectory& directory, const Layout& layout, int64_t step) {
  const std::filesystem::path folder = directory.begin(step, 10'000);
  return directory.publish(step, to_text(write_shards(folder, layout, step)));
}

void save_steps(const std::filesystem::path& path, const Layout& layout,
                const std::vector<int64_t>& steps) {
  CheckpointDirectory directory(path);
  for (const int64_t step : steps) save(directory, layout, step);
}

void expect_values(const std::filesystem::path& checkpoint, int64_t step) {
  const CheckpointReader reader(checkpoint);
  reader.verify();
  EXPECT_EQ(reader.manifest().step, step);
  for (const auto& [name, shape, slices] : tiny_tensors()) {
    const Slice whole = Slice::whole(shape);
    std::vector<float> values(static_cast<size_t>(whole.num_elements()), -1);
    reader.read(name, whole, values.data());
    EXPECT_EQ(values, values_of(name, shape, whole, step)) << checkpoint << ": " << name;
  }
}

}  // namespace cleave::test
