#include "huggingface/model_writer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cleave/error.h"
#include "model_fixture.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

const std::vector<ExpectedTensor> kTensors = {{"b", {2, 3}}, {"a", {4}}, {"c", {1}}, {"d", {7}}};

ModelFiles files(int64_t most_shard_bytes) {
  return {"{}\n", kTensors, ElementType::float32, most_shard_bytes};
}

void write_all(ModelWriter& writer) {
  for (const auto& [name, shape] : kTensors) {
    std::vector<float> values(TensorEntry{"", ElementType::uint8, shape}.num_bytes());
    for (size_t i = 0; i < values.size(); ++i) values[i] = any_value(name, i);
    writer.append(values);
  }
}

std::string refusal(const fs::path& folder) {
  try {
    check_export_folder(folder);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ModelWriter, WritesOneFileWithFormatPt) {
  const TemporaryFolder folder;
  ModelWriter writer(folder.path() / "out/", files(1000));
  write_all(writer);
  EXPECT_FALSE(fs::exists(folder.path() / "out"));
  writer.publish();
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"out"});
  EXPECT_EQ(names_in(folder.path() / "out"),
            (std::vector<std::string>{"config.json", "model.safetensors"}));
  EXPECT_EQ(SafetensorsFile(folder.path() / "out/model.safetensors").metadata().at("format"), "pt");
  EXPECT_EQ(fs::status(folder.path() / "out").permissions() & fs::perms::owner_all,
            fs::perms::owner_all);
}

TEST(ModelWriter, StartsANewFileAboveTheLimit) {
  const TemporaryFolder folder;
  ModelWriter writer(folder.path() / "out", files(40));  // b + a are 24 + 16 bytes
  write_all(writer);
  writer.publish();
  const fs::path out = folder.path() / "out";
  EXPECT_EQ(names_in(out),
            (std::vector<std::string>{"config.json", "model-00001-of-00002.safetensors",
                                      "model-00002-of-00002.safetensors",
                                      "model.safetensors.index.json"}));
  const Json index = Json::parse(read_text(out / "model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], (6 + 4 + 1 + 7) * 4);
  EXPECT_EQ(index["weight_map"]["a"], "model-00001-of-00002.safetensors");
  EXPECT_EQ(index["weight_map"]["d"], "model-00002-of-00002.safetensors");
  const WeightFolder weights(out, kTensors, false, "");
  std::vector<float> d(7);
  weights.read("d", Box::whole({7}), d.data());
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(d[i], any_value("d", i));
}

TEST(ModelWriter, ATensorAboveTheLimitHasAFileOfItsOwn) {
  const TemporaryFolder folder;
  ModelWriter writer(folder.path() / "out", files(1));
  write_all(writer);
  writer.publish();
  EXPECT_EQ(names_in(folder.path() / "out").size(), 6u);
}

TEST(ModelWriter, RoundsToBfloat16) {
  const TemporaryFolder folder;
  ModelWriter writer(folder.path() / "out", {"{}", {{"a", {2}}}, ElementType::bfloat16});
  writer.append(std::vector<float>{1.0f + 0x1p-9f, -0.5f});
  writer.publish();
  const auto values = read_all(folder.path() / "out").at("a");
  EXPECT_EQ(values, (std::vector<float>{1.0f, -0.5f}));
}

TEST(ModelWriter, LeavesNothingWhenItIsNotPublished) {
  const TemporaryFolder folder;
  {
    ModelWriter writer(folder.path() / "out", files(40));
    writer.append(std::vector<float>(6));
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(ModelWriter, KeepsTheResultWhenTheNameWasTakenMeanwhile) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  ModelWriter writer(out, files(1000));
  write_all(writer);
  fs::create_directory(out);
  write_text(out / "theirs", "x");
  try {
    writer.publish();
    FAIL();
  } catch (const RuntimeError& error) {
    EXPECT_NE(std::string(error.what()).find("the export is complete in "), std::string::npos);
  }
  EXPECT_EQ(names_in(out), std::vector<std::string>{"theirs"});
  EXPECT_EQ(names_in(folder.path()).size(), 2u);
}

TEST(ExportFolder, MustBeNewOrEmpty) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal(folder.path() / "a/b/"), "");
  EXPECT_TRUE(fs::is_directory(folder.path() / "a"));
  EXPECT_FALSE(fs::exists(folder.path() / "a/b"));
  EXPECT_EQ(refusal(folder.path() / "a"), "");
  write_text(folder.path() / "a/x", "x");
  EXPECT_NE(refusal(folder.path() / "a").find("/a: is there already and not an empty folder; "),
            std::string::npos);
  EXPECT_NE(refusal(folder.path() / "a/x").find("is there already"), std::string::npos);
  EXPECT_NE(refusal(folder.path() / "a/x/y").find("can't be written: Not a directory; "),
            std::string::npos);
}

}  // namespace
}  // namespace cleave::test
