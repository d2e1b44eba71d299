#include "checkpoint/checkpoint_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>

#include "checkpoint/shard_file.h"
#include "checkpoint_fixture.h"

namespace cleave::test {
namespace {

/// Bytes that this process has asked read() for, so far.
int64_t bytes_read() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  counters >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

TEST(CheckpointReader, ReadsWhatAnyLayoutWroteAsAnyOther) {
  for (const Layout& source : all_layouts()) {
    const TemporaryFolder folder;
    CheckpointDirectory directory(folder.path());
    const CheckpointReader reader(save(directory, source, 5));
    for (const Layout& target : all_layouts())
      for (int rank = 0; rank < target.mesh.world_size(); ++rank)
        for (const auto& [name, shape, slices] : tiny_tensors()) {
          const Slice slice = slice_of(target.place(shape, rank));
          std::vector<float> values(static_cast<size_t>(slice.num_elements()), -1);
          reader.read(name, slice, values.data());
          EXPECT_EQ(values, values_of(name, shape, slice, 5))
              << source.name << " -> " << target.name << ", rank " << rank << ", " << name;
        }
  }
}

TEST(CheckpointReader, VerifiesEveryByteInPartsOnce) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  const CheckpointReader reader(save(directory, cut_three_ways(), 5));
  for (const int parts : {1, 2, 3, 7, 100}) {
    const int64_t before = bytes_read();
    for (int part = 0; part < parts; ++part) reader.verify(part, parts);
    const int64_t read = bytes_read() - before;
    EXPECT_GE(read, reader.manifest().size_bytes());
    EXPECT_LE(read, reader.manifest().size_bytes() + 1000) << parts;  // + /proc/self/io itself
  }
}

/// One tensor of `rows` x `columns` in one file.
std::filesystem::path save_matrix(CheckpointDirectory& directory, int64_t rows, int64_t columns) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::filesystem::path folder = directory.begin(1, 0);
  Manifest manifest = tiny_manifest(one_rank(), 1);
  manifest.tensors = {{"x", {rows, columns}, {}}};
  add_shards(manifest, {write_shard(folder, shard_file_name(0),
                                    {{"x", Slice::whole({rows, columns}), values}}, false)});
  return directory.publish(1, to_text(manifest));
}

TEST(CheckpointReader, ReadsNoMoreThanRowsThatAreFarApart) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  const CheckpointReader reader(save_matrix(directory, 101, 5000));
  const Slice column{{{0, 2500}, {101, 2510}}, 0, 1010};
  std::vector<float> values(1010);
  const int64_t before = bytes_read();
  reader.read("x", column, values.data());
  EXPECT_LE(bytes_read() - before, 1010 * 4 + 1000);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], static_cast<float>(i / 10 * 5000 + 2500 + i % 10));
}

TEST(CheckpointReader, ReadsRowsThatAreCloseTogether) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  const CheckpointReader reader(save_matrix(directory, 70001, 9));  // 2.4 MiB
  const Slice column{{{0, 4}, {70001, 7}}, 1, 3 * 70001 - 1};
  std::vector<float> values(static_cast<size_t>(column.num_elements()));
  const int64_t before = bytes_read();
  reader.read("x", column, values.data());
  EXPECT_LE(bytes_read() - before, 70001 * 9 * 4 + 1000);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], static_cast<float>((i + 1) / 3 * 9 + 4 + (i + 1) % 3));
}

}  // namespace
}  // namespace cleave::test
