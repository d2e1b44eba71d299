#include "checkpoint/export_checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <sstream>

#include "checkpoint_fixture.h"
#include "huggingface/safetensors.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

class ExportCheckpoint : public testing::Test {
 protected:
  ExportCheckpoint() {
    CheckpointDirectory directory(folder_.path() / "ckpt");
    for (const int64_t step : {1, 2}) checkpoint = save(directory, cut_three_ways(), step);
  }

  fs::path to() const { return folder_.path() / "hf"; }
  std::string run(const fs::path& from, const std::string& dtype) {
    return error_of([&] { export_checkpoint(from, to(), dtype, out); });
  }

  fs::path checkpoint;
  std::ostringstream out;

 private:
  TemporaryFolder folder_;
};

TEST_F(ExportCheckpoint, WritesTheWeightsAndTheConfig) {
  EXPECT_EQ(run(checkpoint, "float32"), "");
  const SafetensorsFile file(to() / "model.safetensors");
  EXPECT_EQ(file.names(),
            (std::vector<std::string>{"model.embed_tokens.weight", "model.norm.weight"}));
  for (const std::string& name : file.names()) {
    const TensorView* tensor = file.find(name);
    const auto expected = values_of(name, tensor->shape, Slice::whole(tensor->shape), 2);
    ASSERT_EQ(tensor->bytes.size(), expected.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(tensor->bytes.data(), expected.data(), tensor->bytes.size()), 0) << name;
  }
  EXPECT_EQ(out.str(), "exported 2 tensors, 392 bytes (float32) to " + to().string() + "\n");
  EXPECT_EQ(Json::parse(read_file(to() / "config.json")), tiny_manifest(one_rank(), 2).model);
}

TEST_F(ExportCheckpoint, ConvertsToBfloat16AndSaysSoInTheConfig) {
  EXPECT_EQ(run(checkpoint, "bfloat16"), "");
  const SafetensorsFile file(to() / "model.safetensors");
  const TensorView* tensor = file.find("model.norm.weight");
  EXPECT_EQ(tensor->type, ElementType::bfloat16);
  const auto values = values_of("model.norm.weight", {7}, Slice::whole({7}), 2);
  std::vector<std::byte> expected(14);
  from_float32(ElementType::bfloat16, values.data(), 7, expected.data());
  EXPECT_EQ(std::memcmp(tensor->bytes.data(), expected.data(), 14), 0);
  EXPECT_EQ(Json::parse(read_file(to() / "config.json"))["torch_dtype"], "bfloat16");
}

TEST_F(ExportCheckpoint, TakesTheNewestWholeOneOfADirectoryAndSaysWhatItPassesOver) {
  fs::resize_file(checkpoint / "rank-00004.safetensors", 20);
  EXPECT_EQ(run(checkpoint.parent_path(), "float32"), "");
  EXPECT_TRUE(out.str().starts_with("passed over: " + checkpoint.string())) << out.str();
  const SafetensorsFile file(to() / "model.safetensors");
  const auto expected = values_of("model.norm.weight", {7}, Slice::whole({7}), 1);
  EXPECT_EQ(std::memcmp(file.find("model.norm.weight")->bytes.data(), expected.data(), 28), 0);
}

TEST_F(ExportCheckpoint, RefusesADamagedOneAndLeavesNothing) {
  std::string shard = read_file(checkpoint / "rank-00004.safetensors");
  shard.back() = static_cast<char>(shard.back() ^ 1);
  write_file(checkpoint / "rank-00004.safetensors", shard);
  const std::string error = run(checkpoint, "float32");
  EXPECT_TRUE(error.starts_with((checkpoint / "rank-00004.safetensors").string())) << error;
  EXPECT_FALSE(fs::exists(to()));
}

TEST_F(ExportCheckpoint, RefusesAFolderThatIsInUseAndAnUnknownDtype) {
  EXPECT_NE(run(checkpoint, "float16").find("\"float16\" is not known"), std::string::npos);
  fs::create_directory(to());
  write_file(to() / "mine", "x");
  EXPECT_NE(run(checkpoint, "float32").find("not an empty folder"), std::string::npos);
  EXPECT_EQ(read_file(to() / "mine"), "x");
}

}  // namespace
}  // namespace cleave::test
