// [model] path: what config.json says and what is refused.
#include "huggingface/config_json.h"

#include <gtest/gtest.h>

#include "cleave/error.h"
#include "model_fixture.h"

namespace cleave::test {
namespace {

/// Of a run whose model is `config`, with `toml` below [model].
RunConfig load(const Json& config, const std::string& toml = "init = \"random\"") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "model");
  write_text(folder.path() / "model/config.json", config.dump());
  return load_run_config(write_run(folder, toml), {});
}

std::string error_of(const Json& config, const std::string& toml = "init = \"random\"") {
  try {
    load(config, toml);
  } catch (const ConfigError& error) {
    std::string what = error.what();
    const size_t begin = what.find("/model/config.json: ");
    return begin == std::string::npos ? what : what.substr(begin + 1);
  }
  return "";
}

Json with(Json config, const std::string& key, const Json& value) {
  config[key] = value;
  return config;
}

Json without(Json config, const std::string& key) {
  config.erase(key);
  return config;
}

TEST(ModelConfig, TakesEveryValueOfTheFolder) {
  Json json = tiny_model("llama");
  json["head_dim"] = 6;
  json["initializer_range"] = 0.5;
  json["attention_bias"] = true;
  json["tie_word_embeddings"] = true;
  const ModelConfig model = load(json).model;
  EXPECT_EQ(model.architecture, "llama");
  EXPECT_EQ(model.vocab_size, 23);
  EXPECT_EQ(model.hidden_size, 12);
  EXPECT_EQ(model.intermediate_size, 20);
  EXPECT_EQ(model.num_hidden_layers, 3);
  EXPECT_EQ(model.num_attention_heads, 3);
  EXPECT_EQ(model.num_key_value_heads, 1);
  EXPECT_EQ(model.head_dim, 6);
  EXPECT_EQ(model.rope_theta, 500.5);
  EXPECT_EQ(model.rms_norm_eps, 1e-5);
  EXPECT_EQ(model.initializer_range, 0.5);
  EXPECT_TRUE(model.attention_bias);
  EXPECT_TRUE(model.tie_word_embeddings);
}

TEST(ModelConfig, TakesTransformersDefaultsForWhatIsAbsentOrNull) {
  Json json = tiny_model("qwen2");
  json.erase("rope_theta");
  json.erase("rms_norm_eps");
  json["num_key_value_heads"] = nullptr;
  json["head_dim"] = nullptr;
  const ModelConfig model = load(json).model;
  EXPECT_EQ(model.num_key_value_heads, 3);
  EXPECT_EQ(model.head_dim, 4);
  EXPECT_EQ(model.rope_theta, 10000.0);
  EXPECT_EQ(model.rms_norm_eps, 1e-6);
  EXPECT_EQ(model.initializer_range, 0.02);
  EXPECT_TRUE(model.attention_bias);
  EXPECT_FALSE(model.tie_word_embeddings);
  EXPECT_FALSE(load(tiny_model("llama")).model.attention_bias);
}

TEST(ModelConfig, TakesBothSpellingsOfTheRotaryBase) {
  const Json json = without(tiny_model("llama"), "rope_theta");
  const Json rotary = {{"rope_type", "default"}, {"rope_theta", 7000}};
  EXPECT_EQ(load(with(json, "rope_parameters", rotary)).model.rope_theta, 7000.0);
  EXPECT_EQ(
      load(with(with(json, "rope_parameters", rotary), "rope_theta", 7000.0)).model.rope_theta,
      7000.0);
  EXPECT_EQ(load(with(tiny_model("llama"), "rope_scaling", nullptr)).model.rope_theta, 500.5);
  EXPECT_EQ(load(with(tiny_model("llama"), "rope_scaling", {{"type", "default"}})).model.rope_theta,
            500.5);
  EXPECT_NE(
      error_of(with(tiny_model("llama"), "rope_parameters", rotary))
          .find("config.json: rope_parameters.rope_theta = 7000 contradicts rope_theta = 500.5"),
      std::string::npos);
}

TEST(ModelConfig, LetsBeWhatDoesNotChangeTheFunction) {
  Json json = tiny_model("qwen2");
  json.update({{"sliding_window", 4096},
               {"use_sliding_window", false},
               {"max_window_layers", 28},
               {"layer_types", {"full_attention", "full_attention", "full_attention"}},
               {"hidden_act", "silu"},
               {"attention_dropout", 0},
               {"torch_dtype", "bfloat16"},
               {"architectures", Json::array({"Qwen2ForCausalLM"})},
               {"use_mrope", false},
               {"anything", {{"nested", Json::array({1, nullptr})}}}});
  EXPECT_EQ(error_of(json), "");
}

TEST(ModelConfig, RefusesEveryOtherFunction) {
  const Json q = tiny_model("qwen2"), l = tiny_model("llama");
  const std::pair<Json, std::string> cases[] = {
      {with(q, "model_type", "qwen3"), "model_type = \"qwen3\" is not supported; "},
      {without(q, "model_type"), "model_type = null is not supported; "},
      {with(q, "model_type", 2), "model_type = 2 is not supported; "},
      {with(q, "architectures", Json::array({"Qwen2ForSequenceClassification"})),
       "architectures = [\"Qwen2ForSequenceClassification\"] is not supported; "},
      {with(q, "architectures", Json::array({"LlamaForCausalLM"})), "architectures = "},
      {with(q, "hidden_act", "gelu"), "hidden_act = \"gelu\" is not supported, "},
      {with(l, "mlp_bias", true), "mlp_bias = true is not supported, "},
      {with(l, "attention_dropout", 0.1), "attention_dropout = 0.1 is not supported, "},
      {with(q, "use_sliding_window", true), "use_sliding_window = true is not supported, "},
      {with(q, "layer_types", {"full_attention", "sliding_attention", "full_attention"}),
       "layer_types = [\"full_attention\",\"sliding_attention\",\"full_attention\"] is not "},
      {with(q, "attention_bias", false), "attention_bias = false is not supported, "},
      {with(l, "partial_rotary_factor", 0.5), "partial_rotary_factor = 0.5 is not supported, "},
      {with(l, "quantization_config", {{"bits", 4}}), "quantization_config = {\"bits\":4} is not "},
      {with(l, "auto_map", {{"AutoModel", "x.Y"}}), "auto_map = "},
      {with(l, "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}),
       "rope_scaling = {\"type\":\"linear\",\"factor\":2.0} is not supported, "},
      {with(l, "rope_scaling", {{"rope_type", "llama3"}}), "rope_scaling = "},
      {with(l, "rope_scaling", 2), "rope_scaling = 2 is not supported, "},
      {with(without(l, "rope_theta"), "rope_parameters", {{"full_attention", {{"rope_theta", 1}}}}),
       "rope_parameters = "},
      {with(l, "rope_parameters", {{"rope_type", "yarn"}, {"factor", 4}}), "rope_parameters = "}};
  for (const auto& [json, expected] : cases)
    EXPECT_TRUE(error_of(json).starts_with("model/config.json: " + expected))
        << error_of(json) << "\nwanted " << expected;
}

TEST(ModelConfig, RefusesValuesThatAreWrong) {
  const Json q = tiny_model("qwen2");
  const std::pair<Json, std::string> cases[] = {
      {without(q, "vocab_size"), "vocab_size is missing; add it: an integer from 1 to"},
      {with(q, "hidden_size", "12"), "hidden_size = \"12\" is a string; expected an integer"},
      {with(q, "hidden_size", 12.0), "hidden_size = 12.0 is a float; expected an integer"},
      {with(q, "hidden_size", 0), "hidden_size = 0 is out of range; "},
      {with(q, "hidden_size", 9223372036854775808ull), "hidden_size is an integer (92233720368547"},
      {with(q, "rms_norm_eps", true), "rms_norm_eps = true is a boolean; expected a number above"},
      {with(q, "rope_theta", -1), "rope_theta = -1 is out of range; "},
      {with(q, "tie_word_embeddings", Json::array()), "tie_word_embeddings is an array; expected"},
      {with(q, "num_attention_heads", 5), "model.num_attention_heads = 5 does not divide"},
      {with(q, "num_key_value_heads", 2), "model.num_key_value_heads = 2 does not divide"},
      {with(q, "head_dim", 3), "model.head_dim = 3 is odd; "}};
  for (const auto& [json, expected] : cases)
    EXPECT_TRUE(error_of(json).starts_with("model/config.json: " + expected))
        << error_of(json) << "\nwanted " << expected;
}

TEST(ModelConfig, KeysWrittenInTheRunMustBeEqual) {
  const Json q = tiny_model("qwen2");
  const std::string random = "init = \"random\"\n";
  EXPECT_EQ(error_of(q, random + "hidden_size = 12\nrope_theta = 500.5"), "");
  const std::string error = error_of(q, random + "hidden_size = 16");
  EXPECT_NE(error.find("model.hidden_size = 16 contradicts "), std::string::npos) << error;
  EXPECT_NE(error.find("where it is 12; remove it"), std::string::npos) << error;
  // not in the file, but implied by it
  EXPECT_NE(error_of(q, random + "head_dim = 8").find("where it is 4"), std::string::npos);
}

TEST(ModelConfig, PrintsToAConfigThatLoadsAgain) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "model");
  write_text(folder.path() / "model/config.json", tiny_model("llama").dump());
  const auto file = write_run(folder, "export = \"out/x\"\nexport_dtype = \"bfloat16\"");
  const std::string printed = print_run_config(load_run_config(file, {}));
  EXPECT_NE(printed.find("init = \"pretrained\""), std::string::npos) << printed;
  EXPECT_NE(printed.find("model/config.json"), std::string::npos) << printed;
  write_text(file, printed);
  const RunConfig again = load_run_config(file, {});
  EXPECT_EQ(again.model.export_folder, "out/x");
  EXPECT_EQ(again.model.export_dtype, "bfloat16");
  EXPECT_EQ(again.model.rope_theta, 500.5);
}

TEST(ModelConfig, RefusesAFileThatIsNone) {
  const auto error = [](const std::string& text) {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder.path() / "model");
    if (!text.empty()) write_text(folder.path() / "model/config.json", text);
    try {
      load_run_config(write_run(folder), {});
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(error("").find("model/config.json: cannot be opened: No such file"), std::string::npos);
  EXPECT_NE(error("{\"a\": }").find("model/config.json: not valid JSON: "), std::string::npos);
  EXPECT_NE(error("[1]").find("model/config.json: is array, not an object"), std::string::npos);
  EXPECT_NE(error("{\"a\":{\"b\":1,\"b\":1}}").find("key \"b\" stands there twice"),
            std::string::npos);
}

TEST(ModelConfig, KeepsAllValuesWhenWrittenAgain) {
  Json source = tiny_model("qwen2");
  source.update({{"dtype", "float16"}, {"custom", {1, 2.5, nullptr}}, {"use_cache", false}});
  const ModelConfig model = load(source).model;
  const Json written = make_model_config(model, source, "bfloat16", 8);
  Json expected = source;
  expected["dtype"] = "bfloat16";
  EXPECT_EQ(written.dump(), expected.dump());
  expected = source;
  expected.erase("dtype");
  EXPECT_EQ(make_model_config(model, expected, "float32", 8)["torch_dtype"], "float32");
}

TEST(ModelConfig, ANewOneLoadsToTheSameModel) {
  for (const std::string architecture : {"qwen2", "llama"}) {
    Json source = tiny_model(architecture);
    if (architecture == "llama") source.update({{"attention_bias", true}, {"head_dim", 10}});
    const ModelConfig model = load(source).model;
    const Json written = make_model_config(model, {}, "float32", 8);
    EXPECT_EQ(written["max_position_embeddings"], 8);
    const ModelConfig again = load(written).model;
    EXPECT_EQ(make_model_config(again, {}, "float32", 8).dump(), written.dump());
    EXPECT_EQ(again.head_dim, model.head_dim);
    EXPECT_EQ(again.attention_bias, model.attention_bias);
  }
}

}  // namespace
}  // namespace cleave::test
