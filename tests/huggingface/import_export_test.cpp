// In and out through the program: what is imported is what is exported.
#include <gtest/gtest.h>

#include "huggingface/config_json.h"
#include "model_fixture.h"
#include "support/tiny_run.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

std::string export_to(const TemporaryFolder& folder, const std::string& more = "") {
  return "export = \"" + (folder.path() / "out").string() + "\"\n" + more;
}

void expect_equal(const std::map<std::string, std::vector<float>>& a,
                  const std::map<std::string, std::vector<float>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_TRUE(values == b.at(name)) << name;
  }
}

TEST(ImportExport, TrainingWithoutAChangeGivesTheSameBytes) {
  for (const std::string architecture : {"qwen2", "llama"})
    for (const std::string dtype : {"float32", "bfloat16"}) {
      const TemporaryFolder folder;
      ModelFolder model{tiny_model(architecture), ElementType::float32, 2};
      // not exact in bfloat16: only the master weights hold them
      model.value = [](const std::string& name, int64_t i) { return any_value(name, i) * 1.0001f; };
      model.write(folder.path() / "model");
      const auto run = write_run(folder, export_to(folder));
      const Outcome outcome = run_host({"--config", run.string(), "--set", "train.dtype=" + dtype});
      ASSERT_EQ(outcome.code, 0) << outcome.error;
      EXPECT_NE(outcome.output.find("exported "), std::string::npos);
      expect_equal(read_all(folder.path() / "model"), read_all(folder.path() / "out"));
    }
}

TEST(ImportExport, ExportWithoutTrainingIsACopy) {
  for (const bool is_tied : {true, false}) {
    const TemporaryFolder folder;
    Json config = tiny_model("qwen2");
    config.update({{"tie_word_embeddings", is_tied}, {"dtype", "bfloat16"}, {"mine", {1, 2}}});
    ModelFolder{config, ElementType::bfloat16, 2}.write(folder.path() / "model");
    const auto run = write_run(folder, "export_dtype = \"bfloat16\"");
    const fs::path copy = folder.path() / "copy", again = folder.path() / "again";
    ASSERT_EQ(run_host({"export", "--config", run.string(), "--to", copy.string()}).code, 0);
    expect_equal(read_all(folder.path() / "model"), read_all(copy));
    EXPECT_EQ(Json::parse(read_text(copy / "config.json")), config);
    ASSERT_EQ(run_host({"export", "--config", run.string(), "--to", again.string(), "--set",
                        "model.path=" + copy.string()})
                  .code,
              0);
    EXPECT_TRUE(read_text(copy / "model.safetensors") == read_text(again / "model.safetensors"));
    EXPECT_TRUE(read_text(copy / "config.json") == read_text(again / "config.json"));
  }
}

TEST(ImportExport, EachLayerKeepsItsOwnWeights) {
  const TemporaryFolder folder;
  Json config = tiny_model("qwen2");
  config["num_hidden_layers"] = 12;  // layers 1, 10 and 11 begin alike
  ModelFolder model{config, ElementType::bfloat16, 3};
  model.value = [](const std::string& name, int64_t) {
    const std::string prefix = "model.layers.";
    return name.starts_with(prefix) ? std::stof(name.substr(prefix.size())) : -1.0f;
  };
  model.write(folder.path() / "model");
  const auto run = write_run(folder, export_to(folder));
  ASSERT_EQ(run_host({"--config", run.string()}).code, 0);
  for (const auto& [name, values] : read_all(folder.path() / "out"))
    for (const float value : values) ASSERT_EQ(value, model.value(name, 0)) << name;
}

TEST(ImportExport, RandomWeightsDoNotDependOnTheLayout) {
  const TemporaryFolder folder;
  ModelFolder{tiny_model("llama")}.write(folder.path() / "model");
  const auto run = write_run(folder, export_to(folder, "init = \"random\""));
  const fs::path untrained = folder.path() / "untrained";
  ASSERT_EQ(run_host({"export", "--config", run.string(), "--to", untrained.string()}).code, 0);
  for (const std::string ranks : {"1", "2"}) {
    const Outcome outcome = run_host({"--config", run.string(), "--set", "mesh.data=" + ranks});
    ASSERT_EQ(outcome.code, 0) << outcome.error;
    EXPECT_TRUE(read_text(folder.path() / "out/model.safetensors") ==
                read_text(untrained / "model.safetensors"));
    fs::remove_all(folder.path() / "out");
  }
}

TEST(ImportExport, AConfigInTheRunBecomesAFolderThatLoads) {
  const TemporaryFolder folder;
  ModelFolder{tiny_model("llama")}.write(folder.path() / "model");
  const auto run = write_run(folder, export_to(folder));
  std::string text = read_text(run);
  text.erase(text.find("path = "), text.find("/model\"\n") + 8 - text.find("path = "));
  text.insert(
      text.find("[model]\n") + 8,
      "architecture = \"llama\"\nvocab_size = 23\nhidden_size = 12\nintermediate_size = 20\n"
      "num_hidden_layers = 3\nnum_attention_heads = 3\nattention_bias = true\n"
      "tie_word_embeddings = true\n");
  write_text(run, text);
  const Outcome outcome = run_host({"--config", run.string()});
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  const auto out = read_all(folder.path() / "out");
  EXPECT_FALSE(out.contains("lm_head.weight"));
  EXPECT_TRUE(out.contains("model.layers.2.self_attn.o_proj.bias"));
  const fs::path again = folder.path() / "again";
  const auto import = write_run(folder);
  const Outcome copy = run_host({"export", "--config", import.string(), "--to", again.string(),
                                 "--set", "model.path=" + (folder.path() / "out").string()});
  ASSERT_EQ(copy.code, 0) << copy.error;
  EXPECT_TRUE(read_text(folder.path() / "out/model.safetensors") ==
              read_text(again / "model.safetensors"));
}

TEST(ImportExport, AFolderWithAnExportIsNotWrittenOver) {
  const TemporaryFolder folder;
  ModelFolder{tiny_model("llama")}.write(folder.path() / "model");
  const auto run = write_run(folder, export_to(folder));
  ASSERT_EQ(run_host({"--config", run.string()}).code, 0);
  fs::remove_all(folder.path() / "metrics");
  const Outcome outcome = run_host({"--config", run.string()});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.error.find("out: is there already and not an empty folder; "),
            std::string::npos)
      << outcome.error;
  EXPECT_FALSE(fs::exists(folder.path() / "metrics/metrics.jsonl"));
}

TEST(ImportExport, AllRanksHearOfATiedHeadThatDiffersAnywhere) {
  for (const int64_t element : {0, 275}) {
    const TemporaryFolder folder;
    Json config = tiny_model("llama");
    config["tie_word_embeddings"] = true;
    ModelFolder model{config};
    model.more = {{"lm_head.weight", {23, 12}}};
    model.value = [&](const std::string& name, int64_t i) {
      return name == "lm_head.weight" && i == element ? 2.0f : 1.0f;
    };
    model.write(folder.path() / "model");
    const auto run = write_run(folder);
    const Outcome outcome = run_host({"--config", run.string()});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.error.find("differs from model.embed_tokens.weight at element " +
                                 std::to_string(element) + ","),
              std::string::npos)
        << outcome.error;
  }
}

}  // namespace
}  // namespace cleave::test
