#include "huggingface/box_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <fstream>

#include "model_fixture.h"

namespace cleave::test {
namespace {

/// One tensor "x" whose element i is i, as float32 or as the bits of a bfloat16.
std::filesystem::path write_tensor(const TemporaryFolder& folder, ElementType type,
                                   const std::vector<int64_t>& shape) {
  const auto path = folder.path() / "x.safetensors";
  const TensorEntry entry{"x", type, shape};
  SafetensorsWriter writer(path, {entry}, {});
  const int64_t count = entry.num_bytes() / bytes_of(type);
  for (int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(i);
    const auto bits = static_cast<uint16_t>(i);
    writer.append(type == ElementType::float32 ? std::as_bytes(std::span(&value, 1))
                                               : std::as_bytes(std::span(&bits, 1)));
  }
  writer.finish();
  return path;
}

std::vector<float> read(const SafetensorsFile& file, const Box& box) {
  std::vector<float> values(box.num_elements());
  read_box(file, *file.find("x"), box, values.data());
  return values;
}

/// Element by element from the whole.
std::vector<float> slice(const std::vector<float>& whole, const std::vector<int64_t>& shape,
                         const Box& box) {
  std::vector<float> values;
  for (int64_t flat = 0; flat < static_cast<int64_t>(whole.size()); ++flat) {
    int64_t rest = flat;
    bool is_inside = true;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      is_inside = is_inside && rest % shape[d] >= box.begin[d] && rest % shape[d] < box.end[d];
    if (is_inside) values.push_back(whole[flat]);
  }
  return values;
}

TEST(BoxReader, BoxesAreSlicesOfTheWhole) {
  for (const ElementType type : {ElementType::float32, ElementType::bfloat16}) {
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{5, 3, 4}, {2, 3, 2, 3}, {13, 7}, {11}}) {
      const TemporaryFolder folder;
      const SafetensorsFile file(write_tensor(folder, type, shape));
      const auto whole = read(file, Box::whole(shape));
      for (size_t i = 0; i < whole.size(); ++i) {
        const float expected = type == ElementType::float32
                                   ? static_cast<float>(i)
                                   : std::bit_cast<float>(static_cast<uint32_t>(i) << 16);
        ASSERT_EQ(whole[i], expected);
      }
      for (int64_t choice = 0; choice < 200; ++choice) {
        Box box = Box::whole(shape);
        for (size_t d = 0; d < shape.size(); ++d) {
          box.begin[d] = choice * 7 % 5 % (shape[d] + 1);
          box.end[d] = box.begin[d] + choice / (d + 1) % (shape[d] - box.begin[d] + 1);
        }
        EXPECT_EQ(read(file, box), slice(whole, shape, box));
      }
    }
  }
}

TEST(BoxReader, ReadsAScalarAndAnyStretchOfElements) {
  const TemporaryFolder folder;
  const SafetensorsFile file(write_tensor(folder, ElementType::float32, {}));
  EXPECT_EQ(read(file, Box{{}, {}}), std::vector<float>{0});
  const TemporaryFolder other;
  const SafetensorsFile row(write_tensor(other, ElementType::float32, {9, 9}));
  float values[3];
  read_elements(row, *row.find("x"), 17, 3, values);
  EXPECT_EQ(values[0], 17);
  EXPECT_EQ(values[2], 19);
}

/// Bytes of the file that are in the page cache.
int64_t cached_bytes(const std::filesystem::path& path) {
  const MappedFile file(path);
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  std::vector<unsigned char> pages((file.size_bytes() + page - 1) / page);
  EXPECT_EQ(::mincore(const_cast<std::byte*>(file.data()), file.size_bytes(), pages.data()), 0);
  int64_t count = 0;
  for (const unsigned char resident : pages) count += resident & 1;
  return count * page;
}

/// Kilobytes of this process's memory that are pages of the file.
int64_t resident_kib(const std::filesystem::path& path) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool is_file = false;
  int64_t total = 0;
  while (std::getline(maps, line)) {
    const bool begins_mapping = line.find('-') < line.find(' ') && line.find(':') > line.find(' ');
    if (begins_mapping) is_file = line.ends_with(path.string());
    if (is_file && line.starts_with("Rss:")) total += std::stoll(line.substr(4));
  }
  return total;
}

// What is in the page cache before (all of it where the file system keeps files in memory) does not
// count.
TEST(BoxReader, ReadsNoMoreThanTheBox) {
  const TemporaryFolder folder;
  const auto path = write_tensor(folder, ElementType::bfloat16, {4096, 2048});  // 16 MiB
  const int descriptor = ::open(path.c_str(), O_RDONLY);
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
  const int64_t before = cached_bytes(path);
  const SafetensorsFile file(path);
  const auto rows = read(file, Box{{1024, 0}, {1280, 2048}});  // 1 MiB
  EXPECT_EQ(std::bit_cast<uint32_t>(rows[5]) >> 16, 5u);
  EXPECT_LE(cached_bytes(path) - before, (1 << 20) + (64 << 10));
  EXPECT_LE(resident_kib(path), 64);
}

}  // namespace
}  // namespace cleave::test
