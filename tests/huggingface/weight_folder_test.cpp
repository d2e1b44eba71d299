#include "huggingface/weight_folder.h"

#include <gtest/gtest.h>

#include "cleave/error.h"
#include "model_fixture.h"

namespace cleave::test {
namespace {

WeightFolder open(const TemporaryFolder& folder, const Json& config,
                  const std::string& dtype = "") {
  return {folder.path(), tensors_of(config), config.value("tie_word_embeddings", false), dtype};
}

std::string error_of(const ModelFolder& model, const std::string& dtype = "") {
  const TemporaryFolder folder;
  model.write(folder.path());
  try {
    open(folder, model.config, dtype);
  } catch (const ConfigError& error) {
    return std::string(error.what()).substr(folder.path().string().size() + 1);
  }
  return "";
}

Json tied(const std::string& architecture) {
  Json config = tiny_model(architecture);
  config["tie_word_embeddings"] = true;
  return config;
}

TEST(WeightFolder, ReadsEveryTensorOfOneOrManyFiles) {
  for (const int shards : {1, 3}) {
    for (const ElementType type : {ElementType::float32, ElementType::bfloat16}) {
      const TemporaryFolder folder;
      const ModelFolder model{tiny_model("qwen2"), type, shards};
      model.write(folder.path());
      const WeightFolder weights = open(folder, model.config, "bfloat16");
      for (const auto& [name, shape] : tensors_of(model.config)) {
        std::vector<float> values(TensorEntry{"", ElementType::uint8, shape}.num_bytes());
        weights.read(name, Box::whole(shape), values.data());
        for (size_t i = 0; i < values.size(); ++i)
          ASSERT_EQ(values[i], any_value(name, static_cast<int64_t>(i))) << name;
      }
    }
  }
}

TEST(WeightFolder, PrefersOneFileToAnIndexAsTransformersDoes) {
  const TemporaryFolder folder;
  ModelFolder model{tiny_model("llama"), ElementType::float32, 2};
  model.value = [](const std::string&, int64_t) { return 1.0f; };
  model.write(folder.path());
  model.shards = 1;
  model.value = [](const std::string&, int64_t) { return 2.0f; };
  model.write(folder.path());
  float value = 0;
  open(folder, model.config).read("model.norm.weight", Box{{0}, {1}}, &value);
  EXPECT_EQ(value, 2);
}

TEST(WeightFolder, IgnoresTheInverseFrequenciesOfOldFolders) {
  ModelFolder model{tiny_model("llama")};
  for (const std::string layer : {"0", "1", "2"})
    model.more.push_back({"model.layers." + layer + ".self_attn.rotary_emb.inv_freq", {2}});
  EXPECT_EQ(error_of(model), "");
}

TEST(WeightFolder, ATiedModelMayHaveTheSameHeadAgain) {
  ModelFolder model{tied("qwen2")};
  EXPECT_EQ(error_of(model), "");
  model.more = {{"lm_head.weight", {23, 12}}};
  model.value = [](const std::string& name, int64_t i) {
    return name == "lm_head.weight" ? any_value("model.embed_tokens.weight", i)
                                    : any_value(name, i);
  };
  const TemporaryFolder folder;
  model.write(folder.path());
  const WeightFolder weights = open(folder, model.config);
  for (int parts = 1; parts < 4; ++parts)
    for (int part = 0; part < parts; ++part)
      EXPECT_EQ(weights.find_untied(part, parts), std::nullopt);
}

TEST(WeightFolder, FindsTheElementInWhichATiedHeadDiffers) {
  ModelFolder model{tied("qwen2")};
  model.more = {{"lm_head.weight", {23, 12}}};
  model.value = [](const std::string& name, int64_t i) {
    if (name == "lm_head.weight" && i == 100) return -0.0f;  // equal as a number, not in bits
    return i == 100 ? 0.0f : name == "lm_head.weight" ? 1.0f : 1.0f;
  };
  const TemporaryFolder folder;
  model.write(folder.path());
  const WeightFolder weights = open(folder, model.config);
  EXPECT_EQ(weights.find_untied(0, 1), 100);
  EXPECT_EQ(weights.find_untied(0, 2), 100);
  EXPECT_EQ(weights.find_untied(1, 2), std::nullopt);
  EXPECT_EQ(weights.find_untied(0, 2000), std::nullopt);
  EXPECT_THROW(weights.refuse_untied("at element 100"), ConfigError);
}

TEST(WeightFolder, RefusesATiedHeadOfAnotherShape) {
  ModelFolder model{tied("llama")};
  model.more = {{"lm_head.weight", {12, 23}}};
  EXPECT_EQ(
      error_of(model),
      "model.safetensors: tensor \"lm_head.weight\" differs from model.embed_tokens.weight in "
      "shape, but tie_word_embeddings is true; set it to false in config.json, or remove "
      "lm_head.weight");
}

TEST(WeightFolder, RefusesAnUntiedModelWithoutHead) {
  ModelFolder model{tiny_model("llama")};
  model.without = {"lm_head.weight"};
  EXPECT_EQ(error_of(model),
            "model.safetensors: tensor \"lm_head.weight\" of shape [23,12] is missing; config.json "
            "and weights must be of one model");
}

TEST(WeightFolder, RefusesStrayBiases) {
  ModelFolder model{tiny_model("llama")};
  model.more = {{"model.layers.1.self_attn.k_proj.bias", {4}}};
  EXPECT_TRUE(error_of(model).starts_with(
      "model.safetensors: tensor \"model.layers.1.self_attn.k_proj.bias\" is no part of the model"))
      << error_of(model);
}

TEST(WeightFolder, RefusesALabelOf16BitsThatCantBeRight) {
  const ModelFolder model{tiny_model("llama"), ElementType::bfloat16};
  EXPECT_EQ(error_of(model, "bfloat16"), "");
  EXPECT_EQ(error_of(model, "float32"), "");
  EXPECT_TRUE(
      error_of(model, "float16")
          .ends_with(" is BF16, but config.json says float16; correct the one that is wrong"));
}

TEST(WeightFolder, RefusesAFolderWithoutWeights) {
  const TemporaryFolder folder;
  try {
    open(folder, tiny_model("llama"));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.what(), folder.path().string() +
                                ": has neither model.safetensors nor model.safetensors.index.json; "
                                "save the model as safetensors, or set model.init = \"random\"");
  }
}

}  // namespace
}  // namespace cleave::test
