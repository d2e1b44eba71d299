// Decodes the files with a reader of its own, written from the formats' definitions.
#include "report/event_file.h"

#include <cstring>
#include <map>

#include "cleave/error.h"
#include "report_fixture.h"

namespace cleave {
namespace {

using EventFileTest = ScratchFolder;

template <typename Value>
Value take(std::string_view& bytes) {
  if (bytes.size() < sizeof(Value)) throw std::runtime_error("cut off");
  Value value;
  std::memcpy(&value, bytes.data(), sizeof(Value));
  bytes.remove_prefix(sizeof(Value));
  return value;
}

std::string_view take_bytes(std::string_view& bytes, size_t count) {
  if (bytes.size() < count) throw std::runtime_error("cut off");
  const std::string_view taken = bytes.substr(0, count);
  bytes.remove_prefix(count);
  return taken;
}

uint32_t unmasked(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

std::vector<std::string> read_records(std::string_view file) {
  std::vector<std::string> records;
  while (!file.empty()) {
    const std::string_view header = file.substr(0, 8);
    const auto length = take<uint64_t>(file);
    EXPECT_EQ(unmasked(take<uint32_t>(file)), crc32c(header));
    const std::string_view payload = take_bytes(file, length);
    EXPECT_EQ(unmasked(take<uint32_t>(file)), crc32c(payload));
    records.emplace_back(payload);
  }
  return records;
}

uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<uint8_t>(bytes);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
}

/// Field number -> raw values, of any protobuf message.
std::multimap<uint64_t, std::string> fields(std::string_view bytes) {
  std::multimap<uint64_t, std::string> result;
  while (!bytes.empty()) {
    const uint64_t key = take_varint(bytes);
    std::string value;
    switch (key & 7) {
      case 0:
        value = std::to_string(take_varint(bytes));
        break;
      case 1:
        value = take_bytes(bytes, 8);
        break;
      case 2:
        value = take_bytes(bytes, take_varint(bytes));
        break;
      case 5:
        value = take_bytes(bytes, 4);
        break;
      default:
        throw std::runtime_error("unknown wire type");
    }
    result.emplace(key >> 3, value);
  }
  return result;
}

std::string only(const std::multimap<uint64_t, std::string>& message, uint64_t field) {
  EXPECT_EQ(message.count(field), 1u) << field;
  return message.find(field)->second;
}

TEST(Crc32c, MatchesTheStandardsCheckValue) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
}

TEST_F(EventFileTest, BeginsWithTheFileVersion) {
  EventFile file(folder_);
  const auto records = read_records(read_file(file.file()));
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(only(fields(records[0]), 3), "brain.Event:2");
}

TEST_F(EventFileTest, HoldsStepTimeAndScalars) {
  EventFile file(folder_);
  file.write(300, 1.5, {{"loss", 4.5}, {"lr", 1e-3}});
  const auto records = read_records(read_file(file.file()));
  ASSERT_EQ(records.size(), 2u);

  const auto event = fields(records[1]);
  std::string wall_time = only(event, 1);
  std::string_view wall_time_bytes = wall_time;
  EXPECT_EQ(take<double>(wall_time_bytes), 1.5);
  EXPECT_EQ(only(event, 2), "300");

  std::map<std::string, float> scalars;
  for (const auto& [field, bytes] : fields(only(event, 5))) {
    EXPECT_EQ(field, 1u);
    const auto value = fields(bytes);
    const std::string number = only(value, 2);
    std::string_view number_bytes = number;
    scalars[only(value, 1)] = take<float>(number_bytes);
  }
  EXPECT_EQ(scalars, (std::map<std::string, float>{{"loss", 4.5f}, {"lr", 1e-3f}}));
}

TEST_F(EventFileTest, IsNamedAsTensorBoardLooksForIt) {
  EXPECT_TRUE(EventFile(folder_).file().filename().string().starts_with("events.out.tfevents."));
}

TEST_F(EventFileTest, NamesTheFolderThatCannotBeWritten) {
  EXPECT_THROW(EventFile(folder_ / "missing"), ConfigError);
}

}  // namespace
}  // namespace cleave
