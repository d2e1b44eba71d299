#include "core/solver.h"

#include <gtest/gtest.h>

#include "cleave/error.h"

namespace cleave {
namespace {

class SolverTest : public testing::Test {
 protected:
  SolverTest() : mesh_({{"pipeline", 1}, {"data", 4}, {"tensor", 1}}) {
    config_.file = "run.toml";
    config_.communication.backend = {"wire", {"run.toml:3:1"}, {}};
    backend_ = {"wire", {"run.toml:3:1"}, {}};
    for (uint32_t& dtypes : backend_.capabilities.dtypes[CLEAVE_CPU]) dtypes = ~0u;
  }

  /// Another backend for `key` of [communication.data]; it can do all but reduce_scatter.
  void add_backend(const std::string& name, std::string AxisBackends::*key) {
    config_.communication.axes["data"].*key = name;
    config_.communication.axis_backends.push_back({name, {"run.toml:5:1"}, {}});
    backend_.others.push_back({name, {"run.toml:5:1"}, backend_.capabilities});
    backend_.others.back().capabilities.dtypes[CLEAVE_CPU][CLEAVE_REDUCE_SCATTER] = 0;
  }

  Plan& add(const std::string& name) {
    strategies_.push_back({name,
                           {"run.toml:" + std::to_string(10 + strategies_.size()) + ":1"},
                           Plan{mesh_, 0, units_, parameters_},
                           {}});
    return strategies_.back().plan;
  }
  std::vector<std::string> solved() {
    std::vector<std::string> names;
    for (size_t i : solve(config_, mesh_, strategies_, backend_, at::kCPU))
      names.push_back(strategies_[i].name);
    return names;
  }
  void expect_refusal(const std::vector<std::string>& parts) {
    try {
      solved();
      FAIL() << "accepted";
    } catch (const ConfigError& error) {
      for (const std::string& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
            << part << "\n in " << error.what();
    }
  }

  RunConfig config_{};
  Mesh mesh_;
  std::vector<UnitInfo> units_;
  std::vector<Parameter*> parameters_;
  std::vector<PlannedStrategy> strategies_;
  PlannedBackend backend_;
};

TEST_F(SolverTest, AcceptsOneOwnerPerAxis) {
  add("a").claimed_axes = {"data"};
  EXPECT_EQ(solved(), (std::vector<std::string>{"a"}));
}

TEST_F(SolverTest, RefusesTwoOwnersOfAnAxisNamingBothLines) {
  add("a").claimed_axes = {"data"};
  add("b").claimed_axes = {"data"};
  expect_refusal({"run.toml:10:1: strategy a", "run.toml:11:1: strategy b", "the axis data",
                  "remove [strategy.a] or [strategy.b]"});
}

TEST_F(SolverTest, RefusesAnAxisThatNobodySplits) {
  expect_refusal({"no strategy splits the axis data of size 4", "start 1 ranks with data = 1"});
}

TEST_F(SolverTest, RefusesAMisspeltAxisEvenOfSizeOne) {
  mesh_ = Mesh({{"data", 1}, {"tensr", 1}});
  expect_refusal({"no strategy knows the axis tensr", "did you mean mesh.tensor?"});
}

TEST_F(SolverTest, RefusesAClaimOnAnAxisThatTheMeshLacks) {
  add("a").claimed_axes = {"data", "replica"};
  expect_refusal({"strategy a splits the axis replica, which [mesh] does not have"});
}

TEST_F(SolverTest, RefusesTwoStrategiesForASingleRole) {
  add("a").claimed_axes = {"data"};
  add("b");
  for (PlannedStrategy& strategy : strategies_)
    strategy.single_roles = {GradientReducer::kInterface};
  expect_refusal({"strategy b plays the role cleave.gradient_reducer/draft", "strategy a"});
}

TEST_F(SolverTest, RefusesANeedThatNobodyOffers) {
  Plan& plan = add("a");
  plan.claimed_axes = {"data"};
  plan.needs = {{"gradient-sync.deferrable", "micro-batches end at different times"}};
  expect_refusal({"strategy a needs gradient-sync.deferrable because micro-batches end"});
  add("b").offers = {"gradient-sync.deferrable"};
  EXPECT_EQ(solved().size(), 2u);
}

TEST_F(SolverTest, RefusesConflictsWithBothSidesAndTheReason) {
  Plan& plan = add("a");
  plan.claimed_axes = {"data"};
  plan.conflicts = {{"gradients.partial", "it needs whole gradients"}};
  EXPECT_EQ(solved().size(), 1u);
  add("b").offers = {"gradients.partial"};
  expect_refusal({"run.toml:10:1: strategy a", "because it needs whole gradients",
                  "run.toml:11:1: strategy b offers it", "remove [strategy.b] or [strategy.a]"});
}

TEST_F(SolverTest, RefusesWhatTheBackendCannotDo) {
  Plan& plan = add("a");
  plan.claimed_axes = {"data"};
  plan.communication = {{"data", CLEAVE_REDUCE_SCATTER, at::kBFloat16, 0}};
  EXPECT_EQ(solved().size(), 1u);
  backend_.capabilities.dtypes[CLEAVE_CPU][CLEAVE_REDUCE_SCATTER] = 1u << CLEAVE_FLOAT32;
  expect_refusal({"strategy a uses reduce_scatter of BFloat16 on cpu along the axis data",
                  "run.toml:3:1: communication wire"});
}

TEST_F(SolverTest, AsksTheBackendOfTheAxis) {
  add_backend("fibre", &AxisBackends::backend);
  Plan& plan = add("a");
  plan.claimed_axes = {"data"};
  plan.communication = {{"tensor", CLEAVE_REDUCE_SCATTER, at::kFloat, 0},
                        {"data", CLEAVE_ALL_GATHER, at::kFloat, 0}};
  EXPECT_EQ(solved().size(), 1u);
  plan.communication[1].op = CLEAVE_REDUCE_SCATTER;
  expect_refusal(
      {"run.toml:10:1: strategy a uses reduce_scatter of Float on cpu along the axis "
       "data, which run.toml:5:1: communication fibre can't do; choose another "
       "[communication.data] backend"});
}

TEST_F(SolverTest, AsksTheInnerBackendForTheInnerGroupsAlone) {
  add_backend("fibre", &AxisBackends::inner_backend);
  mesh_.divide("data", 2);
  Plan& plan = add("a");
  plan.claimed_axes = {"data"};
  for (const char* axis : {"data", "data.outer"})
    plan.communication.push_back({axis, CLEAVE_REDUCE_SCATTER, at::kFloat, 0});
  EXPECT_EQ(solved().size(), 1u);
  plan.communication.push_back({"data.inner", CLEAVE_REDUCE_SCATTER, at::kFloat, 0});
  expect_refusal(
      {"along the axis data.inner, which run.toml:5:1: communication fibre can't do; "
       "choose another [communication.data] inner_backend"});
}

TEST_F(SolverTest, RefusesWhatTheHostItselfNeeds) {
  add_backend("fibre", &AxisBackends::backend);
  const auto refusal = [&](const CommUse& use) -> std::string {
    try {
      check_host_communication(config_, {use}, backend_, at::kCPU);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  const CommUse norm{"", CLEAVE_ALL_REDUCE, at::kDouble, 0};
  EXPECT_EQ(refusal(norm), "");
  EXPECT_EQ(refusal({"data", CLEAVE_REDUCE_SCATTER, at::kLong, 0}),
            "the host uses reduce_scatter of Long on cpu along the axis data, which run.toml:5:1: "
            "communication fibre can't do; choose another [communication.data] backend");
  backend_.capabilities.dtypes[CLEAVE_CPU][CLEAVE_ALL_REDUCE] = 1u << CLEAVE_FLOAT32;
  EXPECT_EQ(refusal(norm),
            "the host uses all_reduce of Double on cpu over all ranks, which run.toml:3:1: "
            "communication wire can't do; choose another [communication] backend");
}

TEST_F(SolverTest, RefusesAnInnerBackendOfAnAxisThatNobodyDivides) {
  add_backend("fibre", &AxisBackends::inner_backend);
  config_.origins["communication.data.inner_backend"] = {"run.toml:5:1"};
  add("a").claimed_axes = {"data"};
  expect_refusal(
      {"run.toml:5:1: communication.data.inner_backend = \"fibre\", but no strategy "
       "divides the axis data into inner and outer groups; remove the key"});
  mesh_.divide("data", 2);
  EXPECT_EQ(solved().size(), 1u);
}

TEST_F(SolverTest, LeavesTheInnerBackendOfAnAxisOfOneRank) {
  add_backend("fibre", &AxisBackends::inner_backend);
  mesh_ = Mesh({{"data", 1}});
  EXPECT_TRUE(solved().empty());
}

TEST_F(SolverTest, OrdersByWhatMustComeFirstThenByName) {
  add("c").claimed_axes = {"data"};
  Plan& first = add("a");
  first.after = {"c.done"};
  strategies_[0].plan.offers = {"c.done"};
  add("b");
  EXPECT_EQ(solved(), (std::vector<std::string>{"b", "c", "a"}));
}

TEST_F(SolverTest, RefusesACyclicOrder) {
  Plan& a = add("a");
  a.claimed_axes = {"data"};
  a.offers = {"a"};
  a.after = {"b"};
  Plan& b = add("b");
  b.offers = {"b"};
  b.after = {"a"};
  expect_refusal(
      {"run.toml:10:1: strategy a", "run.toml:11:1: strategy b", "each must come after"});
}

TEST_F(SolverTest, RefusesABackendThatMovesOtherMemory) {
  add("a").claimed_axes = {"data"};
  config_.train.device = "cpu";
  add_backend("card", &AxisBackends::backend);
  for (uint32_t& dtypes : backend_.others.back().capabilities.dtypes[CLEAVE_CPU]) dtypes = 0;
  for (uint32_t& dtypes : backend_.others.back().capabilities.dtypes[CLEAVE_CUDA]) dtypes = ~0u;
  expect_refusal({"run.toml:5:1: communication card moves no cpu memory",
                  "train.device (default) is cpu", "use device = \"cuda\""});
}

TEST_F(SolverTest, BackendOfAnAxisOfOneRankMayMoveOtherMemory) {
  add("a").claimed_axes = {"data"};
  config_.communication.axes["tensor"].backend = "card";
  config_.communication.axis_backends.push_back({"card", {"run.toml:5:1"}, {}});
  backend_.others.push_back({"card", {"run.toml:5:1"}, {}});
  EXPECT_EQ(solved().size(), 1u);
}

}  // namespace
}  // namespace cleave
