// Every role is called when it should be, with what, on which thread and in which order.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "cleave/error.h"
#include "support/tiny_run.h"

namespace cleave {
namespace {

using Lines = std::vector<std::string>;

std::string quoted(const std::string& text) {
  return message('"', text, '"');
}

// Two steps of two micro-batches on two ranks with the strategy `name`; what each rank's hooks
// wrote.
std::vector<Lines> record(const std::vector<std::string>& names,
                          std::vector<test::RunResult>* results = nullptr) {
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_config(folder);
  config.model.num_hidden_layers = 1;
  config.train.steps = 2;
  config.train.micro_batch_size = 3;
  const std::string log = (folder.path() / "log").string();
  config.strategies.clear();
  for (const std::string& name : names) {
    config.strategies.push_back({name, {"tiny.toml"}, {}});
    if (name.starts_with("record"))
      config.strategies.back().options = {{"log", quoted(log), {"tiny.toml"}}};
  }
  auto ranks = test::run_ranks(config, 2);
  std::vector<Lines> lines(2);
  for (int rank = 0; rank < 2; ++rank) {
    std::ifstream file(log + ".rank" + std::to_string(rank));
    for (std::string line; std::getline(file, line);) lines[rank].push_back(line);
  }
  if (results) *results = std::move(ranks);
  return lines;
}

void expect_main_thread(const Lines& lines) {
  for (const std::string& line : lines)
    EXPECT_EQ(line.find("another thread"), std::string::npos) << line;
}

Lines with_prefix(const Lines& lines, const std::string& prefix) {
  Lines found;
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(found),
               [&](const std::string& line) { return line.starts_with(prefix); });
  return found;
}

TEST(UnitObserver, SeesEveryUnitInForwardAndBackwardOrder) {
  for (const Lines& lines : record({"ddp", "record-observer"})) {
    expect_main_thread(lines);
    Lines expected = {"plan", "start"};
    for (int step = 0; step < 2; ++step)
      for (const char* mb : {"#0", "#1"}) {
        for (const char* unit : {"embedding", "layers.0", "head"})
          for (const char* when : {"before", "after"})
            expected.push_back(std::string(when) + " forward " + unit + " " + mb);
        for (const char* unit : {"head", "layers.0", "embedding"})
          for (const char* when : {"before", "after"})
            expected.push_back(std::string(when) + " backward " + unit + " " + mb);
      }
    expected.insert(expected.end(), {"quiesce", "destroy"});
    EXPECT_EQ(lines, expected);
  }
}

TEST(GradientReducer, GetsEveryParameterOncePerStepInBackwardOrder) {
  const auto ranks = record({"record-reducer"});
  EXPECT_EQ(ranks[0], ranks[1]);
  expect_main_thread(ranks[0]);
  const Lines ready = with_prefix(ranks[0], "gradient_ready ");
  ASSERT_EQ(ready.size() % 2, 0u);
  const Lines first(ready.begin(), ready.begin() + ready.size() / 2);
  const Lines second(ready.begin() + ready.size() / 2, ready.end());
  EXPECT_EQ(first, second);
  EXPECT_EQ(first.front(), "gradient_ready lm_head.weight");
  EXPECT_EQ(first.back(), "gradient_ready model.embed_tokens.weight");
  Lines sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
  EXPECT_EQ(ranks[0][2], "allocate_gradients of " + std::to_string(first.size()));
  EXPECT_EQ(with_prefix(ranks[0], "finish_gradients").size(), 2u);
  EXPECT_EQ(ranks[0][3 + first.size()], "finish_gradients");
}

TEST(OpsRewriter, ReplacesEveryOperationOfTheModel) {
  const Lines lines = record({"ddp", "record-rewriter"})[1];
  expect_main_thread(lines);
  const Lines one_forward = {"embedding model.embed_tokens.weight",
                             "rms_norm model.layers.0.input_layernorm.weight",
                             "region_in",
                             "linear model.layers.0.self_attn.q_proj.weight",
                             "attention",
                             "linear model.layers.0.self_attn.o_proj.weight",
                             "region_out",
                             "rms_norm model.layers.0.post_attention_layernorm.weight",
                             "region_in",
                             "linear model.layers.0.mlp.gate_proj.weight",
                             "swiglu",
                             "linear model.layers.0.mlp.down_proj.weight",
                             "region_out",
                             "rms_norm model.norm.weight",
                             "region_in",
                             "cross_entropy lm_head.weight"};
  Lines expected = {"plan", "start", "rewrite"};
  for (int i = 0; i < 4; ++i)
    expected.insert(expected.end(), one_forward.begin(), one_forward.end());
  expected.insert(expected.end(), {"quiesce", "destroy"});
  EXPECT_EQ(lines, expected);
}

TEST(StepWrapper, EnclosesTheUpdateOncePerStep) {
  const Lines lines = record({"ddp", "record-step"})[0];
  expect_main_thread(lines);
  EXPECT_EQ(lines, (Lines{"plan", "start", "before update 0", "after update 0", "before update 1",
                          "after update 1", "quiesce", "destroy"}));
}

TEST(Roles, RecordersDoNotChangeTheNumbers) {
  std::vector<test::RunResult> plain, recorded;
  record({"ddp"}, &plain);
  record({"ddp", "record-observer", "record-rewriter", "record-step"}, &recorded);
  for (const auto& [name, weight] : plain[0].final_weights)
    EXPECT_TRUE(test::bitwise_equal(recorded[0].final_weights.at(name), weight)) << name;
}

TEST(Roles, StrategiesEndInReverseOrder) {
  const Lines lines = record({"record-observer", "record-reducer", "record-step"})[0];
  const Lines life = with_prefix(lines, "destroy");
  EXPECT_EQ(life.size(), 3u);
  // all are quiet before the first is destroyed
  const auto first_destroy = std::find(lines.begin(), lines.end(), "destroy");
  EXPECT_EQ(std::count(lines.begin(), first_destroy, "quiesce"), 3);
}

struct Fault {
  const char* hook;
  const char* kind;
  const char* expected;
};
void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.hook << " " << fault.kind;
}

class FaultTest : public testing::TestWithParam<Fault> {};
INSTANTIATE_TEST_SUITE_P(
    Hooks, FaultTest,
    testing::Values(
        Fault{"create", "std", "strategy faulty: create threw: thrown by the test"},
        Fault{"create", "c10", "strategy faulty: create threw: "},
        Fault{"create", "int", "create threw: a thrown int"},
        Fault{"plan", "std", "strategy faulty: plan(): thrown by the test"},
        Fault{"start", "std", "strategy faulty: start(): thrown by the test"},
        Fault{"start", "int", "start(): a thrown int"},
        Fault{"rewrite", "c10", "strategy faulty: rewrite(): "},
        Fault{"allocate_gradients", "std", "strategy faulty: allocate_gradients(): thrown"},
        Fault{"before_forward", "std", "strategy faulty: before_unit(embedding): thrown"},
        Fault{"after_forward", "c10", "strategy faulty: after_unit(embedding): thrown"},
        Fault{"before_backward", "int", "strategy faulty: before_unit(head): a thrown int"},
        Fault{"after_backward", "std", "strategy faulty: after_unit(head): thrown"},
        Fault{"gradient_ready", "std", "strategy faulty: gradient_ready(lm_head.weight): thrown"},
        Fault{"finish_gradients", "std", "strategy faulty: finish_gradients(): thrown"},
        Fault{"update", "std", "strategy faulty: update(): thrown"},
        Fault{"quiesce", "std", "strategy faulty: quiesce(): thrown"},
        Fault{"communicate-in-destroy", "std",
              "strategy faulty: destroy(): communicator data, rank"},
        Fault{"keep-work", "std", "1 works are still held after quiesce()"},
        Fault{"keep-tensor", "std", "bytes of gradients are still held after quiesce()"},
        Fault{"foreign-axis", "std", "it uses the axis tensor, which its plan did not name"},
        Fault{"no-gradient", "std", "allocate_gradients left lm_head.weight without"},
        Fault{"no-update", "std", "update called the optimizer 0 times in step 1"}));

TEST_P(FaultTest, EndsAllRanksWithPluginHookAndReason) {
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_config(folder);
  config.strategies = {{"faulty", {"tiny.toml"}, {}}};
  config.strategies[0].options = {{"hook", quoted(GetParam().hook), {"t"}},
                                  {"kind", quoted(GetParam().kind), {"t"}},
                                  {"rank", "1", {"t"}}};
  try {
    test::run_ranks(config, 3);
    FAIL() << "the fault went by";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().expected), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace cleave
