// A run that is not the one that was saved is told so before step 1.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "checkpoint/checkpoint_directory.h"
#include "cleave/error.h"
#include "training.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

struct Change {
  std::string name;
  std::function<void(RunConfig&)> apply;
  std::vector<std::string> texts;  // in the message
};

void PrintTo(const Change& change, std::ostream* out) {
  *out << change.name;
}

// Another value for one token in ten.
void change_data(RunConfig& config) {
  std::string text = read_file(config.data.path);
  for (size_t i = 0; i < text.size(); i += 10) text[i] = static_cast<char>((text[i] + 1) % 97);
  write_file(config.data.path, text);
}

std::vector<Change> model_changes() {
  const std::string first =
      "model.embed_tokens.weight has the shape [97, 32], but this model's is ";
  const std::string layer = "model.layers.0.";
  return {
      {"vocab_size", [](RunConfig& c) { c.model.vocab_size = 101; }, {first + "[101, 32]"}},
      {"hidden_size", [](RunConfig& c) { c.model.hidden_size = 40; }, {first + "[97, 40]"}},
      {"intermediate_size",
       [](RunConfig& c) { c.model.intermediate_size = 64; },
       {layer + "mlp.gate_proj.weight has the shape [56, 32], but this model's is [64, 32]"}},
      {"more heads",
       [](RunConfig& c) { c.model.num_attention_heads = 6; },
       {layer + "self_attn.q_proj.weight has the shape [32, 32], but this model's is [48, 32]"}},
      {"fewer kv heads",
       [](RunConfig& c) { c.model.num_key_value_heads = 1; },
       {layer + "self_attn.k_proj.weight has the shape [16, 32], but this model's is [8, 32]"}},
      {"a layer more",
       [](RunConfig& c) { c.model.num_hidden_layers = 6; },
       {"has no model.layers.5."}},
      {"a layer less",
       [](RunConfig& c) { c.model.num_hidden_layers = 4; },
       {"holds model.layers.4.", "which this model has not"}},
      {"tied",
       [](RunConfig& c) { c.model.tie_word_embeddings = true; },
       {"holds lm_head.weight, which this model has not"}},
      {"no biases",
       [](RunConfig& c) {
         c.model.architecture = "llama";
         c.model.attention_bias = false;
       },
       {"holds model.layers.0.self_attn.", "_proj.bias, which this model has not"}},
      {"heads of another size in matrices of the same",
       [](RunConfig& c) {
         c.model.num_attention_heads = 2;
         c.model.num_key_value_heads = 1;
         c.model.head_dim = 16;
       },
       {"model.head_dim", "8", "16"}},
      {"rope_theta",
       [](RunConfig& c) { c.model.rope_theta = 20000; },
       {"model.rope_theta = 10000.0, but now it is 20000.0"}},
      {"rms_norm_eps",
       [](RunConfig& c) { c.model.rms_norm_eps = 1e-5; },
       {"model.rms_norm_eps", "1e-06", "1e-05"}}};
}

std::vector<Change> data_changes() {
  return {{"sequence_length",
           [](RunConfig& c) { c.data.sequence_length = 8; },
           {"data.sequence_length = 16, but now it is 8"}},
          {"global_batch_size",
           [](RunConfig& c) { c.train.global_batch_size = 8; },
           {"train.global_batch_size = 12, but now it is 8"}},
          {"shuffle",
           [](RunConfig& c) { c.data.shuffle = false; },
           {"data.shuffle = ", "but now it is"}},
          {"seed", [](RunConfig& c) { c.data.seed = 8; }, {"data.seed = 7, but now it is 8"}},
          {"ignore_token",
           [](RunConfig& c) { c.data.ignore_token = 6; },
           {"data.ignore_token = 5, but now it is 6"}},
          {"no ignore_token",
           [](RunConfig& c) { c.data.ignore_token.reset(); },
           {"data.ignore_token = 5, but now it is -1"}},
          {"more data",
           [](RunConfig& c) { write_file(c.data.path, read_file(c.data.path) + "\1"); },
           {"the number of tokens in data.path = 597, but now it is 598"}},
          {"other data of the same length",
           change_data,
           {"a checksum of data.path's tokens = ", ", but now it is "}}};
}

std::string name_of(const testing::TestParamInfo<Change>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

class ResumeRefusals : public testing::TestWithParam<Change> {};
INSTANTIATE_TEST_SUITE_P(Model, ResumeRefusals, testing::ValuesIn(model_changes()), name_of);
INSTANTIATE_TEST_SUITE_P(Data, ResumeRefusals, testing::ValuesIn(data_changes()), name_of);

TEST_P(ResumeRefusals, NameBothValuesOnAllRanksBeforeStepOne) {
  const TemporaryFolder folder;
  RunConfig config = resume_config(folder);
  const Training before = train_until(2, config, ddp(2));
  GetParam().apply(config);
  config.train.steps = 4;
  for (const fs::path& from : {fs::path("auto"), checkpoint_of(config, 2)}) {
    config.checkpoint.resume = from;
    const Training training = train(config, ddp(2));
    EXPECT_TRUE(training.is_config_error);
    for (const std::string& error : training.rank_errors) {
      EXPECT_NE(error.find(checkpoint_of(config, 2).string()), std::string::npos) << error;
      for (const std::string& text : GetParam().texts)
        EXPECT_NE(error.find(text), std::string::npos) << error << "\nwanted " << text;
    }
    expect_same_steps(training, before);
    EXPECT_EQ(find_checkpoints(config.checkpoint.directory).size(), 1);
  }
}

TEST(ResumeChanges, OfHyperparametersAreAllowedAndPrinted) {
  const TemporaryFolder folder;
  RunConfig config = resume_config(folder);
  train_until(2, config, one_rank());
  config.optimizer.lr = 2e-2;
  config.optimizer.weight_decay = 0.2;
  config.optimizer.schedule = "linear";
  config.train.micro_batch_size = 4;
  const Training training = train_until(3, config, one_rank());
  for (const char* line :
       {"changed: optimizer.lr 0.01 -> 0.02\n", "changed: optimizer.weight_decay 0.1 -> 0.2\n",
        "changed: optimizer.schedule \"cosine\" -> \"linear\"\n",
        "changed: train.micro_batch_size 2 -> 4\n", "changed: train.steps 2 -> 3\n"})
    EXPECT_NE(training.console.find(line), std::string::npos)
        << training.console << "\nwanted " << line;
  EXPECT_EQ(training.console.find("changed: optimizer.beta1"), std::string::npos);
}

TEST(ResumeChanges, OfNothingPrintNothing) {
  const TemporaryFolder folder;
  const RunConfig config = resume_config(folder);
  train_until(2, config, one_rank());
  const Training training = train_until(2, config, one_rank());
  EXPECT_EQ(training.console.find("changed:"), std::string::npos) << training.console;
}

}  // namespace
}  // namespace cleave::test
