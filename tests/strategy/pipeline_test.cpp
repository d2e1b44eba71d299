// pipeline trains the model that one rank trains, with every schedule, alone and with all other
// axes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "cleave/error.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

using Tables = std::vector<PluginTable>;

struct Case {
  int pipeline;
  std::string schedule;
  int64_t micro_batches;
  bool tied = false;
  int tensor = 1;
  int data = 1;
  Tables others = {};
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << "pipeline " << c.pipeline << " " << c.schedule << ", tensor " << c.tensor << ", data "
       << c.data << ", " << c.micro_batches << " micro-batches" << (c.tied ? ", tied" : "");
  for (const PluginTable& table : c.others) {
    *out << ", " << table.name;
    for (const RawOption& option : table.options) *out << " " << option.key << " " << option.toml;
  }
}

PluginTable pipeline(const std::string& schedule) {
  std::vector<std::pair<std::string, std::string>> options = {{"schedule", '"' + schedule + '"'}};
  if (schedule == "interleaved-1f1b") options.push_back({"virtual_stages", "2"});
  return test::strategy("pipeline", options);
}

RunConfig config_of(const test::TemporaryFolder& folder, const Case& c) {
  RunConfig config = test::tiny_config(folder);
  config.model.tie_word_embeddings = c.tied;
  config.train.steps = 5;
  config.train.global_batch_size = 2 * c.micro_batches * c.data;
  config.train.micro_batch_size = 2;
  config.mesh = {{"pipeline", c.pipeline}, {"tensor", c.tensor}};
  config.strategies = c.others;
  config.strategies.push_back(pipeline(c.schedule));
  if (c.tensor > 1) config.strategies.push_back(test::strategy("tensor-parallel"));
  return config;
}

class Pipeline : public testing::TestWithParam<Case> {};

std::vector<Case> alone() {
  std::vector<Case> cases;
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"})
    for (const int ranks : {1, 2, 3, 4})
      for (const int64_t micro_batches : {1, 2, 3, 5, 8})
        cases.push_back({ranks, schedule, micro_batches, micro_batches % 2 == 0});
  cases.push_back({2, "interleaved-1f1b", 2});
  cases.push_back({2, "interleaved-1f1b", 8, true});
  cases.push_back({3, "interleaved-1f1b", 3, true});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Alone, Pipeline, testing::ValuesIn(alone()));

std::vector<Case> composed() {
  std::vector<Tables> reducers = {{test::strategy("ddp")}, {test::strategy("fsdp")}};
  for (const char* stage : {"1", "2", "3"})
    reducers.push_back({test::strategy("zero", {{"stage", stage}})});
  std::vector<Case> cases;
  for (const Tables& reducer : reducers)
    for (const char* schedule : {"1f1b", "zb-h1"})
      for (const bool tied : {false, true}) {
        cases.push_back({2, schedule, 3, tied, 2, 2, reducer});
        Tables with_recompute = reducer;
        with_recompute.push_back(test::strategy("activation-checkpoint"));
        cases.push_back({2, schedule, 2, tied, 2, 2, with_recompute});
      }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Composed, Pipeline, testing::ValuesIn(composed()));

TEST_P(Pipeline, EqualsOneRank) {
  const test::TemporaryFolder folder;
  const Case& c = GetParam();
  RunConfig config = config_of(folder, c);
  const auto ranks = test::run_ranks(config, c.pipeline * c.tensor * c.data);
  config.strategies.clear();
  config.mesh.clear();
  test::expect_same_training(ranks, test::run_ranks(config, 1)[0]);
  for (size_t rank = 1; rank < ranks.size(); ++rank)
    test::expect_bitwise_equal(ranks[rank], ranks[0]);
}

}  // namespace
}  // namespace cleave
