#include "huggingface/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "cleave/error.h"
#include "model_fixture.h"

namespace cleave::test {
namespace {

std::string file_of(const std::string& header, const std::string& data = "",
                    std::optional<uint64_t> length = std::nullopt) {
  const uint64_t bytes = length.value_or(header.size());
  return std::string(reinterpret_cast<const char*>(&bytes), 8) + header + data;
}

std::string error_of(const std::string& content) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  write_text(path, content);
  try {
    SafetensorsFile{path};
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    EXPECT_TRUE(what.starts_with(path.string() + ": ")) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    return what.substr(path.string().size() + 2);
  }
  return "";
}

TEST(Safetensors, ReadsWhatItWrites) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<TensorEntry> entries = {{"b", ElementType::float32, {2, 3}},
                                            {"none", ElementType::float64, {0, 7}},
                                            {"a", ElementType::uint8, {}}};
  SafetensorsWriter writer(path, entries, {{"format", "pt"}});
  const auto bytes = std::as_bytes(std::span(values));
  writer.append(bytes.subspan(0, 5));
  writer.append(bytes.subspan(5));
  EXPECT_FALSE(std::filesystem::exists(path));
  const std::byte last{7};
  writer.append({&last, 1});
  writer.finish();

  const SafetensorsFile file(path);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b", "none"}));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const TensorView* b = file.find("b");
  EXPECT_EQ(b->type, ElementType::float32);
  EXPECT_EQ(b->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(b->bytes.data(), values.data(), bytes.size()), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b->bytes.data()) % 8, 0u);
  EXPECT_EQ(file.find("a")->num_elements(), 1);
  EXPECT_EQ(file.find("none")->num_elements(), 0);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST(Safetensors, AnUnfinishedFileLeavesNothing) {
  const TemporaryFolder folder;
  { SafetensorsWriter writer(folder.path() / "x", {{"a", ElementType::uint8, {9}}}, {}); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, TakesAHeaderPaddedWithSpaces) {
  EXPECT_EQ(error_of(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}   )", "x")),
            "");
  EXPECT_EQ(error_of(file_of("{}")), "");
}

using Cases = std::vector<std::pair<std::string, std::string>>;  // content, what is said of it

void expect_refused(const Cases& cases) {
  for (const auto& [content, expected] : cases) {
    const std::string error = error_of(content);
    EXPECT_NE(error.find(expected), std::string::npos) << error << "\nwanted " << expected;
    EXPECT_NE(error.find("; "), std::string::npos) << "nothing to do: " << error;
  }
}

/// A header of one tensor "a".
std::string tensor(const std::string& rest) {
  return "{\"a\":{" + rest + "}}";
}

TEST(Safetensors, RefusesAHeaderThatIsNone) {
  expect_refused(
      {{"", "is empty (0 bytes); "},
       {"1234567", "has 7 bytes, too few for a header; "},
       {file_of("{}", "", uint64_t{1} << 63),
        "header length 9223372036854775808 is out of range: "},
       {file_of("{}", "", 3), "header length 3 is out of range: the file has 10 bytes"},
       {file_of("{}", "", UINT64_MAX), "is out of range: "},
       {file_of("", "x"), "header: not valid JSON: "},
       {file_of("{\"a\": ", "x"), "header: not valid JSON: "},
       {file_of("\"\xff\""), "header: not valid JSON: "},
       {file_of("[]"), "header: is array, not an object"},
       {file_of("{\"a\":1}"), "tensor \"a\": is 1, not an object"},
       {file_of(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{}})", "x"),
        "header: key \"a\" stands there twice; "},
       {file_of(tensor(R"("dtype":"U8","shape":[],"data_offsets":[0,1],"shape":[1])"), "x"),
        "header: key \"shape\" stands there twice; "}});
}

TEST(Safetensors, RefusesATypeOrShapeThatIsWrong) {
  expect_refused(
      {{file_of(tensor(R"("shape":[1],"data_offsets":[0,1])"), "x"), "tensor \"a\": has no dtype"},
       {file_of(tensor(R"("dtype":"X7","shape":[1],"data_offsets":[0,1])"), "x"),
        "tensor \"a\": dtype = \"X7\" is not known"},
       {file_of(tensor(R"("dtype":7,"shape":[1],"data_offsets":[0,1])"), "x"),
        "tensor \"a\": dtype = 7 is not known"},
       {file_of(tensor(R"("dtype":"U8","shape":1,"data_offsets":[0,1])"), "x"),
        "tensor \"a\": shape = 1 is not a list"},
       {file_of(tensor(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), "x"),
        "tensor \"a\": shape = [-1] is not a list of sizes"},
       {file_of(tensor(R"("dtype":"U8","shape":[1.5],"data_offsets":[0,1])"), "x"),
        "is not a list of sizes"},
       {file_of(tensor(R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1])"), "x"),
        "is not a list of sizes below 2^63"},
       {file_of(tensor(R"("dtype":"U8","shape":[4294967296,4294967297],"data_offsets":[0,1])"),
                "x"),
        "tensor \"a\": has 1 bytes, not those of shape [4294967296,4294967297] in U8"},
       {file_of(tensor(R"("dtype":"F16","shape":[1],"data_offsets":[0,1])"), "x"),
        "has 1 bytes, not those of shape [1] in F16"}});
}

TEST(Safetensors, RefusesOffsetsThatAreWrong) {
  expect_refused(
      {{file_of(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), "x"),
        "data_offsets = [1,0] is not begin and end"},
       {file_of(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), "x"),
        "data_offsets = [0] is not begin and end"},
       {file_of(tensor(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])"), "x"),
        "tensor \"a\": ends at byte 2 of 1: the file is truncated"},
       {file_of(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), "xy"),
        "tensor \"a\": begins at byte 1, but the one before it ends at 0: there is a gap"},
       {file_of(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), "xy"),
        "its last 1 bytes belong to no tensor"},
       {file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                "xyz"),
        "tensor \"b\": begins at byte 1, but the one before it ends at 2: they overlap"},
       {file_of(tensor(R"("dtype":"U8","shape":[2],"data_offsets":[18446744073709551615,1])"), "x"),
        "is not a list of sizes below 2^63"}});
}

TEST(Safetensors, ShowsControlCharactersOfNamesEscaped) {
  EXPECT_TRUE(error_of(file_of("{\"a\\n\\u001b[31m\":1}"))
                  .starts_with(R"(tensor "a\n\u001b[31m": is 1, not an object)"));
}

TEST(Safetensors, ADeepHeaderIsNoDanger) {
  const std::string deep(200000, '[');
  EXPECT_NE(error_of(file_of("{\"a\":" + deep)), "");
}

}  // namespace
}  // namespace cleave::test
