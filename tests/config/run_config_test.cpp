#include "config/run_config.h"

#include <gtest/gtest.h>

#include "cleave/error.h"
#include "support.h"

namespace cleave {
namespace {

Tables with(const std::string& table, const std::string& key, const std::string& value) {
  Tables tables = complete_run();
  tables[table][key] = value;
  return tables;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string message_of_file(const std::filesystem::path& file) {
  try {
    load_run_config(file, {});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(RunConfig, FillsDefaults) {
  const RunConfig config = load(complete_run());
  EXPECT_EQ(config.model.num_key_value_heads, 4);
  EXPECT_EQ(config.model.head_dim, 16);
  EXPECT_EQ(config.model.rope_theta, 10000.0);
  EXPECT_EQ(config.model.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.model.initializer_range, 0.02);
  EXPECT_TRUE(config.model.attention_bias);
  EXPECT_FALSE(config.model.tie_word_embeddings);
  EXPECT_EQ(config.model.init, "random");
  EXPECT_TRUE(config.model.path.empty());
  EXPECT_TRUE(config.model.export_folder.empty());
  EXPECT_EQ(config.model.export_dtype, "float32");
  EXPECT_TRUE(config.data.shuffle);
  EXPECT_EQ(config.data.seed, 1234u);
  EXPECT_FALSE(config.data.ignore_token.has_value());
  EXPECT_EQ(config.train.seed, 1234u);
  EXPECT_EQ(config.train.dtype, "float32");
  EXPECT_EQ(config.optimizer.min_lr, 0.0);
  EXPECT_EQ(config.optimizer.schedule, "cosine");
  EXPECT_EQ(config.optimizer.warmup_steps, 0);
  EXPECT_EQ(config.optimizer.decay_steps, 10);
  EXPECT_EQ(config.optimizer.beta1, 0.9);
  EXPECT_EQ(config.optimizer.beta2, 0.95);
  EXPECT_EQ(config.optimizer.epsilon, 1e-8);
  EXPECT_EQ(config.optimizer.weight_decay, 0.1);
  EXPECT_EQ(config.optimizer.clip_norm, 1.0);
  EXPECT_TRUE(config.mesh.empty());
  EXPECT_EQ(config.communication.backend.name, "mpi");
  EXPECT_EQ(config.communication.timeout_s, 600);
  EXPECT_TRUE(config.strategies.empty());
  EXPECT_EQ(config.metrics.directory, "out/metrics");
  EXPECT_EQ(config.metrics.every_steps, 1);
  EXPECT_FALSE(config.metrics.tensorboard);
  EXPECT_FALSE(config.metrics.trace);
}

TEST(RunConfig, TakesBiasFromArchitecture) {
  EXPECT_FALSE(load(with("model", "architecture", "\"llama\"")).model.attention_bias);
  Tables llama = with("model", "architecture", "\"llama\"");
  llama["model"]["attention_bias"] = "true";
  EXPECT_TRUE(load(llama).model.attention_bias);
}

TEST(RunConfig, AcceptsIntegerForNumber) {
  EXPECT_EQ(load(with("model", "rope_theta", "1000000")).model.rope_theta, 1e6);
  EXPECT_EQ(load(with("optimizer", "clip_norm", "0")).optimizer.clip_norm, 0.0);
}

TEST(RunConfig, AcceptsTheEndsOfRanges) {
  EXPECT_EQ(load(with("train", "seed", "9223372036854775807")).train.seed, 9223372036854775807u);
  EXPECT_EQ(load(with("train", "seed", "0")).train.seed, 0u);
  EXPECT_EQ(load(with("model", "vocab_size", "2147483647")).model.vocab_size, 2147483647);
  EXPECT_EQ(load(with("mesh", "data", "65536")).mesh.at("data"), 65536);
  EXPECT_EQ(load(with("optimizer", "beta1", "0")).optimizer.beta1, 0.0);
  EXPECT_EQ(load(with("data", "ignore_token", "0")).data.ignore_token, 0);
}

TEST(RunConfig, RefusesIntegersThatDoNotFit) {
  for (const std::string number :
       {"100000000000000000000", "9223372036854775808", "-9223372036854775809",
        "0xFFFFFFFFFFFFFFFF", "18446744073709551617", "0o7777777777777777777777"}) {
    for (const auto& [table, key] : std::vector<std::pair<std::string, std::string>>{
             {"train", "steps"}, {"mesh", "data"}, {"train", "seed"}, {"optimizer", "lr"}}) {
      const std::string text = "[" + table + "]\n" + key + " = " + number + "\n";
      const std::string error = error_of(text);
      EXPECT_TRUE(error.starts_with("run.toml:2:")) << error;
      EXPECT_TRUE(contains(error, "not representable in 64 bits")) << error;
      EXPECT_TRUE(contains(error, key + " = " + number)) << error;
    }
  }
  EXPECT_NE(error_of(with("mesh", "data", "4294967298")), "");
  EXPECT_NE(error_of(with("optimizer", "lr", "1e400")), "");
}

TEST(RunConfig, ReadsStrategiesInFileOrder) {
  const RunConfig config = load(to_text(complete_run()) +
                                "[strategy.zero]\nstage = 1\n[strategy.ddp]\n"
                                "bucket_bytes = 25\nname = \"a\\\"b\"\nshare = 0.5\non = true\n");
  ASSERT_EQ(config.strategies.size(), 2u);
  EXPECT_EQ(config.strategies[0].name, "zero");
  EXPECT_EQ(config.strategies[1].name, "ddp");
  EXPECT_TRUE(config.strategies[0].origin.text.ends_with("run.toml:20:1"))
      << config.strategies[0].origin.text;
  std::map<std::string, std::string> options;
  for (const auto& option : config.strategies[1].options) options[option.key] = option.toml;
  const std::map<std::string, std::string> expected = {
      {"bucket_bytes", "25"}, {"name", "\"a\\\"b\""}, {"share", "0.5"}, {"on", "true"}};
  EXPECT_EQ(options, expected);
}

TEST(RunConfig, TakesAnyTomlSpellingOfTables) {
  Tables tables = complete_run();
  tables.erase("train");
  const RunConfig config = load(
      "train = {steps = 10, global_batch_size = 8, micro_batch_size = 2}\n"
      "strategy.ddp.bucket_bytes = 1_000\n" +
      to_text(tables));
  EXPECT_EQ(config.train.steps, 10);
  ASSERT_EQ(config.strategies.size(), 1u);
  EXPECT_EQ(config.strategies[0].options.at(0).toml, "1000");
}

TEST(RunConfig, TakesBackendOptionsBeforeTheBackendItself) {
  const RunConfig config =
      load("communication.ucx.tls = \"tcp\"\ncommunication.backend = \"ucx\"\n" + [] {
        Tables tables = complete_run();
        tables.erase("communication");
        return to_text(tables);
      }());
  EXPECT_EQ(config.communication.backend.name, "ucx");
  EXPECT_TRUE(config.communication.backend.origin.text.ends_with("run.toml:2:15"));
  ASSERT_EQ(config.communication.backend.options.size(), 1u);
  EXPECT_EQ(config.communication.backend.options[0].toml, "\"tcp\"");
}

TEST(RunConfig, AllowsAxesOfPlugins) {
  EXPECT_EQ(load(with("mesh", "context", "2")).mesh.at("context"), 2);
}

TEST(RunConfig, NamesOrigins) {
  const RunConfig config = load(complete_run(), {"mesh.data=2"});
  EXPECT_TRUE(config.where("optimizer.lr").ends_with("run.toml:15:1: optimizer.lr"))
      << config.where("optimizer.lr");
  EXPECT_EQ(config.where("optimizer.beta1"), "optimizer.beta1 (default)");
  EXPECT_EQ(config.where("mesh.data"), "--set mesh.data=2: mesh.data");
  EXPECT_EQ(config.communication.backend.origin.text, "communication.backend (default)");
}

TEST(RunConfig, ReportsTheFirstProblemInFileOrder) {
  const std::string error = error_of("[train]\nsteps = 0\n[model]\nvocab_siz = 1\n[zzz]\n");
  EXPECT_TRUE(error.starts_with("run.toml:2:1: train.steps = 0 is out of range")) << error;
}

TEST(RunConfig, RefusesMissingKeys) {
  for (const auto& [table, keys] : complete_run()) {
    for (const auto& [key, value] : keys) {
      Tables tables = complete_run();
      tables[table].erase(key);
      const std::string error = error_of(tables);
      EXPECT_TRUE(contains(error, ":1: " + table + "." + key + " is missing; add ")) << error;
    }
  }
  Tables tables = complete_run();
  tables.erase("train");
  const std::string error = error_of(tables);
  EXPECT_TRUE(
      error.starts_with("run.toml: train.steps is missing (train.global_batch_size, "
                        "train.micro_batch_size too); add steps = ... to a new table"))
      << error;
}

TEST(RunConfig, RefusesFilesThatAreNone) {
  const TemporaryFile file("");
  EXPECT_TRUE(contains(message_of_file(file.path()), "run.toml: the file is empty; "));
  EXPECT_TRUE(contains(message_of_file(file.path().parent_path()), ": is a directory; "));
  EXPECT_TRUE(contains(message_of_file(file.path().parent_path() / "nothing.toml"),
                       "nothing.toml: no such file; "));
  EXPECT_TRUE(
      contains(message_of_file(file.path() / "below.toml"), "can't be read: Not a directory"));
  EXPECT_TRUE(contains(message_of_file(""), "\"\": no such file"));
  EXPECT_TRUE(contains(error_of(std::string(2 << 20, ' ')), "larger than 1 MiB"));
  EXPECT_TRUE(
      contains(error_of(std::string("a = 1\n\0\xff\xfe", 9)), "run.toml:2:1: not valid TOML"));
}

TEST(RunConfig, RefusesContradictions) {
  Tables tables = with("optimizer", "warmup_steps", "20");
  EXPECT_EQ(error_of(tables), "");  // decay_steps is train.steps = 10, but at least the warm-up
  tables["optimizer"]["decay_steps"] = "10";
  EXPECT_TRUE(contains(error_of(tables),
                       "optimizer.warmup_steps = 20 is above optimizer.decay_steps "
                       "= 10; use at most"));
  tables["optimizer"]["schedule"] = "\"constant\"";
  EXPECT_EQ(error_of(tables), "");
  EXPECT_TRUE(contains(error_of(with("optimizer", "min_lr", "0.01")),
                       "optimizer.min_lr = 0.01 is above optimizer.lr = 0.001; use at most lr"));
  EXPECT_TRUE(contains(error_of(with("model", "num_key_value_heads", "3")),
                       "model.num_key_value_heads = 3 does not divide model.num_attention_heads = "
                       "4; use 1, 2 or 4"));
  EXPECT_TRUE(contains(error_of(with("model", "hidden_size", "66")),
                       "does not divide model.hidden_size = 66; "));
  EXPECT_TRUE(contains(error_of(with("model", "hidden_size", "60")),
                       "model.head_dim (default) = 15 is odd; "));
  EXPECT_TRUE(contains(error_of(with("train", "micro_batch_size", "3")),
                       "train.micro_batch_size = 3 does not divide train.global_batch_size = 8; "));
  tables = with("mesh", "data", "65536");
  tables["mesh"]["tensor"] = "65536";
  EXPECT_TRUE(contains(error_of(tables), "more than 2147483647 ranks; "));
}

}  // namespace
}  // namespace cleave
