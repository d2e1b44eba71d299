// A gradient that is not finite on one rank alone stops all ranks with the same words.
#include <gtest/gtest.h>

#include "core/captured_run.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

struct Case {
  const char* parameter;
  int rank;  ///< the only one whose gradient is broken
  std::map<std::string, int> mesh;
  std::vector<PluginTable> strategies;
  bool tied = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.parameter << " of rank " << c.rank;
  for (const auto& [axis, size] : c.mesh) *out << ", " << axis << " " << size;
}

PluginTable tensor_parallel(const char* sequence_parallel) {
  return test::strategy("tensor-parallel", {{"sequence_parallel", sequence_parallel}});
}
PluginTable pipeline(const char* schedule) {
  return test::strategy("pipeline", {{"schedule", schedule}});
}

constexpr char kSlice[] = "model.layers.1.mlp.up_proj.weight";
constexpr char kSharedHead[] = "model.layers.1.self_attn.k_proj.weight";  // 1 head on 2 ranks
constexpr char kNorm[] = "model.layers.1.input_layernorm.weight";
constexpr char kTied[] = "model.embed_tokens.weight";

class NotFinite : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    InOneRanksPart, NotFinite,
    testing::Values(
        Case{kSlice, 0, {{"tensor", 2}}, {tensor_parallel("false")}},
        Case{kSlice, 1, {{"tensor", 2}}, {tensor_parallel("false")}},
        Case{"model.layers.0.mlp.up_proj.weight", 0, {{"pipeline", 3}}, {pipeline("\"1f1b\"")}},
        Case{"model.layers.4.mlp.up_proj.weight", 2, {{"pipeline", 3}}, {pipeline("\"zb-h1\"")}},
        Case{"lm_head.weight",
             3,
             {{"pipeline", 2}, {"tensor", 2}},
             {pipeline("\"1f1b\""), tensor_parallel("true")}}));
INSTANTIATE_TEST_SUITE_P(
    InOneTermOfASum, NotFinite,
    testing::Values(Case{kSharedHead, 0, {{"tensor", 2}}, {tensor_parallel("false")}},
                    Case{kSharedHead, 1, {{"tensor", 2}}, {tensor_parallel("false")}},
                    Case{kNorm, 0, {{"tensor", 2}}, {tensor_parallel("true")}},
                    Case{kNorm, 1, {{"tensor", 2}}, {tensor_parallel("true")}},
                    Case{kTied, 0, {{"pipeline", 2}}, {pipeline("\"1f1b\"")}, true},
                    Case{kTied, 1, {{"pipeline", 2}}, {pipeline("\"1f1b\"")}, true}));

TEST_P(NotFinite, StopsEveryRankWithTheSameMessage) {
  const test::TemporaryFolder folder;
  const Case& c = GetParam();
  RunConfig config = test::tiny_config(folder);
  config.model.num_key_value_heads = 1;
  config.model.tie_word_embeddings = c.tied;
  config.mesh = c.mesh;
  config.strategies = c.strategies;
  config.strategies.push_back(
      test::strategy("faulty", {{"hook", "\"infinite\""},
                                {"parameter", message('"', c.parameter, '"')},
                                {"rank", std::to_string(c.rank)}}));
  int ranks = 1;
  for (const auto& [axis, size] : c.mesh) ranks *= size;
  std::vector<std::string> messages(ranks, "went on");
  const auto run = [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                       const std::function<void()>& on_failure) {
    try {
      run_captured(config, process, bootstrap, on_failure);
    } catch (const RuntimeError& error) {
      messages[process.rank] = error.what();
    }
  };
  EXPECT_THROW(run_as_threads(ranks, run), RuntimeError);
  for (const std::string& text : messages)
    EXPECT_EQ(text,
              "step 1: the gradient norm is not finite; weights are as after step 0; lower "
              "optimizer.lr or check the data");
}

}  // namespace
}  // namespace cleave
