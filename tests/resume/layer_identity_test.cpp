// Every element of every tensor has a value of its own; none changes its place when the layout
// does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/export_checkpoint.h"
#include "checkpoint/shard_file.h"
#include "cleave/error.h"
#include "training.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

constexpr int kLayers = 5;

// i for layer i, then embedding, norm and head.
int unit_of(const std::string& name) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (name.starts_with(kPrefix)) return name[kPrefix.size()] - '0';
  if (name.starts_with("model.embed_tokens")) return kLayers;
  return name.starts_with("model.norm") ? kLayers + 1 : kLayers + 2;
}

// q, k, v, gate and up differ, though a rank keeps them together.
int tensor_of(const std::string& name) {
  constexpr std::array kNames = {"q_proj.weight",
                                 "k_proj.weight",
                                 "v_proj.weight",
                                 "q_proj.bias",
                                 "k_proj.bias",
                                 "v_proj.bias",
                                 "o_proj.weight",
                                 "gate_proj.weight",
                                 "up_proj.weight",
                                 "down_proj.weight",
                                 "input_layernorm.weight",
                                 "post_attention_layernorm.weight"};
  const auto found = std::find_if(kNames.begin(), kNames.end(),
                                  [&](const char* end) { return name.ends_with(end); });
  return static_cast<int>(found - kNames.begin());
}

// Exact in float32; rows are below 128, columns below 64.
float value_of(const std::string& name, int64_t row, int64_t column) {
  const std::string parameter = is_weight(name) ? name : name.substr(name.find('.') + 1);
  const int moment = name.starts_with(kFirstMoment) ? 1 : name.starts_with(kSecondMoment) ? 2 : 0;
  return static_cast<float>(moment * 16 + unit_of(parameter)) +
         static_cast<float>(tensor_of(parameter) + 1) / 16 + static_cast<float>(row) / 2048 +
         static_cast<float>(column) / 131072;
}

Values all_values(const Manifest& manifest) {
  Values values;
  for (const StoredTensor& tensor : manifest.tensors) {
    const int64_t columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
    for (int64_t row = 0; row < tensor.shape[0]; ++row)
      for (int64_t column = 0; column < columns; ++column)
        values[tensor.name].push_back(value_of(tensor.name, row, column));
  }
  return values;
}

Values weights_of(Values values) {
  std::erase_if(values, [](const auto& entry) { return !is_weight(entry.first); });
  return values;
}

// Instead of what the run of one step has saved.
Values write_by_hand(const RunConfig& config) {
  Manifest manifest = CheckpointReader(checkpoint_of(config, 1)).manifest();
  const Values values = all_values(manifest);
  std::vector<ShardPart> parts;
  manifest.files.clear();
  for (StoredTensor& tensor : manifest.tensors) {
    tensor.slices.clear();
    parts.push_back({tensor.name, Slice::whole(tensor.shape), values.at(tensor.name)});
  }
  CheckpointDirectory directory(config.checkpoint.directory);
  const fs::path folder = directory.begin(1, 0);
  add_shards(manifest, {write_shard(folder, shard_file_name(0), parts, false)});
  directory.publish(1, to_text(manifest));
  return values;
}

// Updates too small to change a bit.
RunConfig config_of(const TemporaryFolder& folder) {
  RunConfig config = resume_config(folder);
  config.model.num_key_value_heads = 4;
  config.train.micro_batch_size = 1;
  config.optimizer.lr = config.optimizer.min_lr = 1e-30;
  config.checkpoint.keep = 10;
  return config;
}

std::map<std::string, std::string> exported(const RunConfig& config, int64_t step) {
  const fs::path to = config.checkpoint.directory / message("export-", step);
  std::ostringstream ignored;
  export_checkpoint(checkpoint_of(config, step), to, "float32", ignored);
  return read_files(to);
}

void expect_to_survive(const std::vector<Layout>& layouts) {
  const TemporaryFolder folder;
  const RunConfig config = config_of(folder);
  train_until(1, config, one_rank());
  const Values written = write_by_hand(config);
  const auto as_written = exported(config, 1);
  int64_t step = 1;
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(layout.name);
    RunConfig from_written = config;
    from_written.checkpoint.resume = checkpoint_of(config, 1);
    for (const Loaded& rank : load(from_written, layout)) expect_same_values(rank.values, written);
    train_until(++step, config, layout);
    expect_same_values(weights_of(read_checkpoint(checkpoint_of(config, step))),
                       weights_of(written));
    EXPECT_EQ(exported(config, step), as_written);
  }
}

TEST(LayerIdentity, SurvivesEachNumberOfStages) {
  expect_to_survive({pipeline(1), pipeline(2), pipeline(3), pipeline(2, "interleaved-1f1b"),
                     pipeline(5), one_rank()});
}

TEST(LayerIdentity, SurvivesEachCutOfItsMatrices) {
  expect_to_survive({tensor_parallel(1), tensor_parallel(2), tensor_parallel(4, true),
                     tensor_parallel(2, true), one_rank()});
}

TEST(LayerIdentity, SurvivesPiecesThatAreCutAcrossRows) {
  expect_to_survive({fsdp(3), zero(3, 4), three_axes(fsdp(2)), zero(1, 3), one_rank()});
}

}  // namespace
}  // namespace cleave::test
