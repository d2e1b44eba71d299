// Ranks that are early or late at random train the same bits: nothing depends on who is first, and
// nothing but messages keeps pipeline ranks together.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/equivalence.h"
#include "trace_spans.h"

namespace cleave {
namespace {

constexpr int kStages = 3;

// Activations of 2 MiB, little to compute.
RunConfig config_of(const test::TemporaryFolder& folder, const char* schedule) {
  RunConfig config = test::tiny_config(folder);
  config.model.hidden_size = 64;
  config.model.head_dim = 32;
  config.model.num_attention_heads = 2;
  config.model.num_key_value_heads = 1;
  config.model.intermediate_size = 8;
  config.model.num_hidden_layers = 1;
  config.data.sequence_length = 16;
  config.train.micro_batch_size = 512;
  config.train.global_batch_size = 1024;
  config.train.steps = 10;
  config.mesh = {{"pipeline", kStages}};
  config.strategies = {test::strategy("pipeline", {{"schedule", schedule}})};
  return config;
}

class PipelineDelays : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Schedules, PipelineDelays, testing::Values("\"1f1b\"", "\"zb-h1\""));

TEST_P(PipelineDelays, ChangeNoBits) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, GetParam());
  const auto prompt = test::run_ranks(config, kStages);
  config.strategies.push_back(test::strategy("slow-units", {{"jitter", "\"2 ms\""}}));
  const auto late = test::run_ranks(config, kStages);
  for (int rank = 0; rank < kStages; ++rank) test::expect_bitwise_equal(late[rank], prompt[rank]);
}

TEST_P(PipelineDelays, MeetNoBarrier) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, GetParam());
  config.train.steps = 3;
  config.strategies.push_back(test::strategy("slow-units", {{"jitter", "\"2 ms\""}}));
  for (const auto& spans : test::train_traced(config, kStages)) {
    const auto is = [](const char* part) {
      return
          [part](const test::TraceSpan& span) { return span.name.find(part) != std::string::npos; };
    };
    EXPECT_TRUE(std::any_of(spans.begin(), spans.end(), is("pipeline.recv")) ||
                std::any_of(spans.begin(), spans.end(), is("pipeline.send")));
    EXPECT_TRUE(std::none_of(spans.begin(), spans.end(), is("barrier")));
  }
}

}  // namespace
}  // namespace cleave
