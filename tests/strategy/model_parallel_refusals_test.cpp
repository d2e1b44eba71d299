// What tensor-parallel, pipeline and pairs of strategies can't do is refused before anything
// starts, with what would do instead.
#include <gtest/gtest.h>

#include <algorithm>

#include "cleave/error.h"
#include "core/planned_run.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

std::string refusal(const RunConfig& config, int ranks) {
  try {
    PlannedRun(config, ranks, 0);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

struct Case {
  int ranks;
  Options options;
  const char* expected;
  int micro_batches = 4;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.ranks << " ranks";
  for (const auto& [key, value] : c.options) *out << ", " << key << " = " << value;
}

// 5 layers, so 7 units.
class PipelineRefuses : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Options, PipelineRefuses,
    testing::Values(
        Case{8,
             {},
             "mesh.pipeline x virtual_stages = 8 chunks, but the model has 7 units "
             "(embedding, 5 layers, head); use at most 7"},
        Case{2,
             {{"schedule", "\"interleaved-1f1b\""}, {"virtual_stages", "4"}},
             "mesh.pipeline x virtual_stages = 8 chunks, but the model has 7 units"},
        Case{3,
             {{"units", "[2, 2, 2]"}},
             "units = [2, 2, 2] are 3 chunks of 6 units together, but there are 3 chunks and 7 "
             "units; for example ["},
        Case{3,
             {{"units", "[2, 3, 3]"}},
             "units = [2, 3, 3] are 3 chunks of 8 units together, but there are 3 chunks and 7 "
             "units; for example ["},
        Case{3,
             {{"units", "[3, 4]"}},
             "units = [3, 4] are 2 chunks of 7 units together, but there are 3 chunks and 7 units; "
             "for example ["},
        Case{3, {{"units", "[0, 3, 4]"}}, "strategy.pipeline.units"},
        Case{2,
             {{"schedule", "\"1f1b\""}, {"virtual_stages", "2"}},
             "virtual_stages = 2 with schedule = \"1f1b\"; only \"interleaved-1f1b\" has several "
             "chunks a rank: use it, or virtual_stages = 1"},
        Case{2,
             {{"schedule", "\"interleaved-1f1b\""}},
             "schedule = \"interleaved-1f1b\" needs virtual_stages = 2 or more"},
        Case{3,
             {{"schedule", "\"interleaved-1f1b\""}, {"virtual_stages", "2"}},
             "runs micro-batches in rounds of 3 (mesh.pipeline), and 4 is no multiple; change "
             "train.global_batch_size or micro_batch_size, or use \"1f1b\""},
        Case{2, {{"schedule", "\"zb-v\""}}, "zb-h1"}));

TEST_P(PipelineRefuses, WithWhatWouldDo) {
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_config(folder);
  const Case& c = GetParam();
  config.train.micro_batch_size = 1;
  config.train.global_batch_size = c.micro_batches;
  config.mesh = {{"pipeline", c.ranks}};
  config.strategies = {test::strategy("pipeline", c.options)};
  const std::string text = refusal(config, c.ranks);
  EXPECT_NE(text.find(c.expected), std::string::npos) << text;
  EXPECT_TRUE(text.starts_with("tiny.toml")) << text;
}

// Two that split the same axis, or play a role that a run has once.
TEST(StrategyPairs, AreAcceptedOrRefusedWithReasonAndAlternative) {
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_config(folder);
  config.train.micro_batch_size = 1;
  config.train.global_batch_size = 8;
  const std::vector<PluginTable> all = {test::strategy("activation-checkpoint"),
                                        test::strategy("ddp"),
                                        test::strategy("fsdp"),
                                        test::strategy("pipeline"),
                                        test::strategy("tensor-parallel"),
                                        test::strategy("zero", {{"stage", "1"}})};
  const std::vector<std::string> of_data = {"ddp", "fsdp", "zero"};
  const auto is_of_data = [&](const PluginTable& table) {
    return std::find(of_data.begin(), of_data.end(), table.name) != of_data.end();
  };
  int num_refused = 0;
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t b = a + 1; b < all.size(); ++b) {
      SCOPED_TRACE(all[a].name + " and " + all[b].name);
      config.strategies = {all[a], all[b]};
      config.mesh.clear();
      int ranks = 1;
      for (const PluginTable& table : config.strategies)
        if (table.name == "pipeline" || table.name == "tensor-parallel") {
          config.mesh[table.name == "pipeline" ? "pipeline" : "tensor"] = 2;
          ranks *= 2;
        }
      if (is_of_data(all[a]) || is_of_data(all[b])) ranks *= 2;
      const std::string text = refusal(config, ranks);
      if (!is_of_data(all[a]) || !is_of_data(all[b])) {
        EXPECT_EQ(text, "accepted");
        continue;
      }
      ++num_refused;
      for (const std::string& part :
           {std::string("splits the axis data, and so does"), "strategy " + all[a].name,
            "strategy " + all[b].name, std::string("an axis has one owner"),
            message("remove [strategy.", all[a].name, "] or [strategy.", all[b].name, "]")})
        EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  EXPECT_EQ(num_refused, 3);
}

}  // namespace
}  // namespace cleave
