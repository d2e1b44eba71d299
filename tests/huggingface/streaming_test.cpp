// A rank that keeps half of each tensor of a sharded folder reads half of the bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "huggingface/model_writer.h"
#include "model_fixture.h"

namespace cleave::test {
namespace {

constexpr int64_t kRows = 1024, kColumns = 4096, kTensors = 25;  // 200 MiB in bfloat16

ModelFiles files_of_200_mib() {
  ModelFiles files{"{}", {}, ElementType::bfloat16, 64 << 20};
  for (int64_t i = 0; i < kTensors; ++i)
    files.tensors.push_back({"layers." + std::to_string(i), {kRows, kColumns}});
  return files;
}

std::vector<std::filesystem::path> shards(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") found.push_back(entry.path());
  return found;
}

void drop_from_cache(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY);
  ASSERT_GE(descriptor, 0);
  ::fsync(descriptor);
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
}

// Bytes of the file that are in the page cache.
int64_t cached_bytes(const std::filesystem::path& file) {
  const int64_t size = static_cast<int64_t>(std::filesystem::file_size(file));
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  const int descriptor = ::open(file.c_str(), O_RDONLY);
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  std::vector<unsigned char> pages((size + page - 1) / page);
  int64_t total = 0;
  if (map != MAP_FAILED && ::mincore(map, size, pages.data()) == 0)
    for (unsigned char flags : pages) total += (flags & 1) * page;
  ::munmap(map, size);
  return total;
}

int64_t status_kib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key)) return std::stoll(line.substr(key.size() + 1));
  return 0;
}

TEST(WeightFolder, ReadsTheBytesOfTheKeptHalfAndNoMore) {
  const TemporaryFolder temporary;
  const auto folder = temporary.path() / "model";
  const ModelFiles files = files_of_200_mib();
  {
    ModelWriter writer(folder, files);
    std::vector<float> values(kRows * kColumns);
    for (int64_t i = 0; i < kTensors; ++i) {
      std::fill(values.begin(), values.end(), static_cast<float>(i));
      writer.append(values);
    }
    writer.publish();
  }
  int64_t before = 0, after = 0;
  ASSERT_GE(shards(folder).size(), 4u);
  for (const auto& file : shards(folder)) {
    drop_from_cache(file);
    before += cached_bytes(file);
  }
  const Box half{{0, 0}, {kRows / 2, kColumns}};
  std::vector<float> kept(half.num_elements(), -1.0f);  // what a rank allocates for the slice
  const int64_t resident_kib = status_kib("VmRSS:");
  int64_t largest_kib = resident_kib;
  const WeightFolder weights(folder, files.tensors, false, "bfloat16");
  for (int64_t i = 0; i < kTensors; ++i) {
    weights.read(files.tensors[i].name, half, kept.data());
    EXPECT_EQ(kept.front(), static_cast<float>(i));
    EXPECT_EQ(kept.back(), static_cast<float>(i));
    largest_kib = std::max(largest_kib, status_kib("VmRSS:"));
  }
  for (const auto& file : shards(folder)) after += cached_bytes(file);
  EXPECT_LE(after - before, kTensors * half.num_elements() * 2 + (1 << 20));
  EXPECT_LE((largest_kib - resident_kib) * 1024, kRows * kColumns * 4);  // one tensor
}

}  // namespace
}  // namespace cleave::test
