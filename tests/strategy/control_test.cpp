// A run whose backend does not move what the host tells other ranks: it goes over the key-value
// store instead, and nothing else changes.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cleave/error.h"
#include "core/bench.h"
#include "core/communicators.h"
#include "core/rank.h"
#include "core/run.h"
#include "core/shared_text.h"
#include "support/equivalence.h"
#include "support/tiny_run.h"

namespace cleave {
namespace {

constexpr char kNarrow[] = "local-narrow";

/// Along tensor alone: the count of targets, an int64, is summed along data.
RunConfig tensor_config(const test::TemporaryFolder& folder, const std::string& backend) {
  RunConfig config = test::tiny_config(folder);
  config.communication.backend.name = backend;
  config.mesh = {{"tensor", 2}};
  config.strategies = {test::strategy("tensor-parallel")};
  return config;
}

TEST(Control, IsTheWorldWhereThatMovesHostMemory) {
  const test::TemporaryFolder folder;
  for (const std::string backend : {"local", kNarrow})
    run_as_threads(2, [&](const ProcessInfo& process, const Bootstrap& bootstrap, const auto&) {
      Communicators communicators(tensor_config(folder, backend), Mesh({{"tensor", 2}}), bootstrap);
      EXPECT_EQ(&communicators.control() == &communicators.world(), backend == "local");
      const std::string mine(static_cast<size_t>(3 * process.rank), 'x');
      EXPECT_EQ(gather_texts(communicators.control(), mine), (std::vector<std::string>{"", "xxx"}));
      communicators.finalize();
    });
}

TEST(Control, RunsOverTheStoreTrainTheSameBits) {
  const test::TemporaryFolder folder;
  const auto wide = test::run_ranks(tensor_config(folder, "local"), 2);
  const auto narrow = test::run_ranks(tensor_config(folder, kNarrow), 2);
  for (size_t rank = 0; rank < 2; ++rank) test::expect_bitwise_equal(narrow[rank], wide[rank]);
}

TEST(Control, CheckpointsAreSavedAndFoundOverTheStore) {
  const test::TemporaryFolder folder;
  RunConfig config = tensor_config(folder, kNarrow);
  config.checkpoint.directory = folder.path() / "checkpoints";
  config.checkpoint.every_steps = 2;
  const auto train_all = [&] {
    std::ostringstream out;
    run_as_threads(2, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                          const std::function<void()>& on_failure) {
      std::ostringstream ignored;
      run_as_rank(config, process, bootstrap, on_failure,
                  [&](const TrainerContext& context, const SolvedPlan& plan) {
                    train(context, plan, nullptr, process.rank == 0 ? out : ignored);
                  });
    });
    return out.str();
  };
  EXPECT_NE(train_all().find("step 3 saved"), std::string::npos);
  config.train.steps = 5;
  EXPECT_NE(train_all().find("step 3 of 5"), std::string::npos);
}

TEST(Control, RanksThatDifferAreToldOverTheStore) {
  const test::TemporaryFolder folder;
  try {
    run_as_threads(2, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                          const std::function<void()>& on_failure) {
      RunConfig config = tensor_config(folder, kNarrow);
      config.optimizer.lr *= process.rank + 1;
      run_as_rank(config, process, bootstrap, on_failure,
                  [](const TrainerContext&, const SolvedPlan&) {});
    });
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("ranks differ in the configuration"),
              std::string::npos)
        << error.what();
  }
}

TEST(Control, BackendsThatCanNotSumWhatTheHostCountsAreRefused) {
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_config(folder);
  config.communication.backend.name = kNarrow;
  try {
    test::run_ranks(config, 3);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("the host uses all_reduce of Long on cpu along the axis data, which "),
              std::string::npos)
        << error.what();
  }
}

TEST(Control, BenchmarksAgreeOverTheStore) {
  BenchRequest request;
  request.backend = kNarrow;
  request.ranks = 3;
  request.ops = {"all_reduce", "reduce_scatter"};
  request.bytes = {"4099"};
  std::ostringstream out;
  EXPECT_TRUE(bench(request, {}, out)) << out.str();
}

}  // namespace
}  // namespace cleave
