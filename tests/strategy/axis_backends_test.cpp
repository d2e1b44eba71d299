// Several communication backends in one run: each axis, and each part of a divided one, moves its
// bytes through the backend that the config names for it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cleave/error.h"
#include "core/program.h"
#include "support/tiny_run.h"

namespace cleave {
namespace {

constexpr char kOther[] = "local-two";

/// The tiny run with another backend for one key of [communication.<axis>].
RunConfig with_other(RunConfig config, const std::string& axis, std::string AxisBackends::*key) {
  config.communication.axes[axis].*key = kOther;
  config.communication.axis_backends = {{kOther, {"tiny.toml:9:1"}, {}}};
  return config;
}

struct Trained {
  CapturedRun run;
  std::vector<Communicators::Description> backends;
};

std::vector<Trained> train_on_ranks(const RunConfig& config, int ranks) {
  std::vector<Trained> results(ranks);
  run_as_threads(ranks, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                            const std::function<void()>& on_failure) {
    run_as_rank(config, process, bootstrap, on_failure,
                [&](const TrainerContext& context, const SolvedPlan&) {
                  results[process.rank].run = capture(context);
                  results[process.rank].backends = context.communicators.describe();
                });
  });
  return results;
}

/// `body` as each of `ranks` threads, with communicators over a mesh.
void on_communicators(const RunConfig& config, const Mesh& mesh,
                      const std::function<void(int rank, Communicators&)>& body) {
  run_as_threads(mesh.world_size(), [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                                        const std::function<void()>& on_failure) {
    Communicators communicators(config, mesh, bootstrap);
    try {
      body(process.rank, communicators);
    } catch (...) {
      on_failure();
      communicators.abort();
      throw;
    }
    communicators.finalize();
  });
}

int operations(const std::string& path) {
  int count = -1;
  std::sscanf(path.c_str(), "local-two after %d operations", &count);
  return count;
}

TEST(AxisBackends, TwoTrainTheBitsOfOne) {
  const test::TemporaryFolder folder;
  const RunConfig config = test::tiny_config(folder);
  const auto one = train_on_ranks(config, 3);
  const auto two = train_on_ranks(with_other(config, "data", &AxisBackends::backend), 3);
  for (int rank = 0; rank < 3; ++rank) {
    for (const auto& [name, gradient] : one[rank].run.first_gradients)
      EXPECT_TRUE(test::bitwise_equal(two[rank].run.first_gradients.at(name), gradient)) << name;
    for (const auto& [name, weight] : one[rank].run.final_weights)
      EXPECT_TRUE(test::bitwise_equal(two[rank].run.final_weights.at(name), weight)) << name;
    for (size_t step = 0; step < one[rank].run.records.size(); ++step) {
      EXPECT_EQ(two[rank].run.records[step].loss, one[rank].run.records[step].loss);
      EXPECT_EQ(two[rank].run.records[step].wire_bytes, one[rank].run.records[step].wire_bytes);
    }
  }
}

TEST(AxisBackends, BytesOfTheAxisGoThroughItsOwn) {
  const test::TemporaryFolder folder;
  const RunConfig config = test::tiny_config(folder);
  for (const Trained& rank : train_on_ranks(config, 3)) EXPECT_EQ(rank.backends.size(), 1u);
  for (const Trained& rank :
       train_on_ranks(with_other(config, "data", &AxisBackends::backend), 3)) {
    ASSERT_EQ(rank.backends.size(), 2u);
    EXPECT_EQ(rank.backends[0].name, "local");
    EXPECT_EQ(rank.backends[0].serves, (std::vector<std::string>{"world"}));
    EXPECT_EQ(rank.backends[1].name, kOther);
    EXPECT_EQ(rank.backends[1].serves, (std::vector<std::string>{"data"}));
    // a step counts targets and reduces at least one bucket
    EXPECT_GE(operations(rank.backends[1].path), 2 * config.train.steps);
  }
}

TEST(AxisBackends, InnerGroupsOfADividedAxisHaveTheirs) {
  const test::TemporaryFolder folder;
  Mesh mesh({{"pipeline", 1}, {"data", 6}, {"tensor", 1}});
  mesh.divide("data", 3);
  const RunConfig config =
      with_other(test::tiny_config(folder), "data", &AxisBackends::inner_backend);
  on_communicators(config, mesh, [&](int rank, Communicators& communicators) {
    std::vector<std::string> traced;
    communicators.set_trace(
        [&](const std::string& name, int64_t, auto, auto) { traced.push_back(name); });
    const auto sum = [&](const char* axis) {
      at::Tensor value = at::full({1}, rank, at::kInt);
      communicators.axis(axis).all_reduce(value).wait_host();
      return value.item<int>();
    };
    EXPECT_EQ(sum("data.inner"), rank < 3 ? 0 + 1 + 2 : 3 + 4 + 5);
    EXPECT_EQ(sum("data.outer"), rank % 3 + rank % 3 + 3);
    EXPECT_EQ(sum("data"), 0 + 1 + 2 + 3 + 4 + 5);
    EXPECT_EQ(traced, (std::vector<std::string>{"data.inner.all_reduce", "data.outer.all_reduce",
                                                "data.all_reduce"}));
    EXPECT_EQ(communicators.axis("data.inner").rank(), rank % 3);
    EXPECT_EQ(communicators.axis("data.outer").rank(), rank / 3);
    const auto backends = communicators.describe();
    ASSERT_EQ(backends.size(), 2u);
    EXPECT_EQ(backends[0].serves, (std::vector<std::string>{"world", "data", "data.outer"}));
    EXPECT_EQ(backends[1].serves, (std::vector<std::string>{"data.inner"}));
    EXPECT_EQ(operations(backends[1].path), 1);
    EXPECT_EQ(communicators.fingerprint().what,
              "the build or options of communication local or local-two");
  });
}

TEST(AxisBackends, OneOfAnAxisOfOneRankIsNotStarted) {
  const test::TemporaryFolder folder;
  const RunConfig config = with_other(test::tiny_config(folder), "tensor", &AxisBackends::backend);
  on_communicators(config, Mesh({{"data", 2}, {"tensor", 1}}),
                   [](int, Communicators& communicators) {
                     EXPECT_EQ(communicators.describe().size(), 1u);
                     EXPECT_EQ(communicators.axis("tensor").size(), 1);
                   });
}

TEST(AxisBackends, AbortEndsThoseWhoWaitInAnyOfThem) {
  const test::TemporaryFolder folder;
  const RunConfig config = with_other(test::tiny_config(folder), "data", &AxisBackends::backend);
  on_communicators(config, Mesh({{"data", 2}}), [](int rank, Communicators& communicators) {
    if (rank == 0) return communicators.abort();
    at::Tensor value = at::zeros({1});
    EXPECT_THROW(communicators.axis("data").all_reduce(value).wait_host(), RuntimeError);
  });
}

TEST(AxisBackends, RanksThatNameOthersAreToldBeforeTheyWaitForEachOther) {
  const test::TemporaryFolder folder;
  const RunConfig config = test::tiny_config(folder);
  const RunConfig odd = with_other(config, "data", &AxisBackends::backend);
  const Mesh mesh({{"data", 3}});
  run_as_threads(3, [&](const ProcessInfo& process, const Bootstrap& bootstrap, const auto&) {
    try {
      Communicators communicators(process.rank == 2 ? odd : config, mesh, bootstrap);
      ADD_FAILURE() << "accepted";
    } catch (const ConfigError& error) {
      EXPECT_EQ(std::string(error.what()),
                "ranks differ in the axes or their backends: rank 2 of 3 has another than the "
                "others; give all ranks the same files and the same command line");
    }
  });
}

struct Outcome {
  int code;
  std::string output;
};

/// `host <verb>` of the tiny run on three data ranks, with `overrides`.
Outcome run_host(const std::string& verb, const std::vector<std::string>& overrides) {
  const test::TemporaryFolder folder;
  const std::string file = (folder.path() / "run.toml").string();
  std::ofstream(file) << print_run_config(test::tiny_config(folder));
  std::vector<const char*> argv = {"host",       verb.c_str(), "--config",
                                   file.c_str(), "--set",      "mesh.data=3"};
  for (const std::string& assignment : overrides) {
    argv.push_back("--set");
    argv.push_back(assignment.c_str());
  }
  std::ostringstream output, error;
  const int code = run_program(static_cast<int>(argv.size()), argv.data(), output, error);
  return {code, output.str() + error.str()};
}

TEST(AxisBackends, HeaderNamesEachBackendAndWhatItServes) {
  const Outcome one = run_host("train", {});
  EXPECT_EQ(one.code, 0) << one.output;
  EXPECT_NE(one.output.find("\ncommunication: local, local, 3 ranks as threads of one process\n"),
            std::string::npos)
      << one.output;
  const Outcome two = run_host("train", {"communication.data.backend=local-two"});
  EXPECT_EQ(two.code, 0) << two.output;
  for (const char* line : {"\ncommunication: local, local, 3 ranks as threads of one process, for "
                           "world\n",
                           "\ncommunication: local-two, local-two after 0 operations, for data\n"})
    EXPECT_NE(two.output.find(line), std::string::npos) << two.output;
}

TEST(AxisBackends, VerifyComparesWithOneRankOfOneBackend) {
  const Outcome run = run_host("verify", {"communication.data.backend=local-two"});
  EXPECT_EQ(run.code, 0) << run.output;
}

TEST(AxisBackends, RefusesOneThatDoesNotExistOrServesNothing) {
  const Outcome missing = run_host("check", {"communication.data.backend=nothing"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.output.find("--set communication.data.backend=nothing: communication plugin "
                                "nothing not found in "),
            std::string::npos)
      << missing.output;
  const Outcome undivided = run_host("check", {"communication.data.inner_backend=local-two"});
  EXPECT_EQ(undivided.code, 2);
  EXPECT_NE(undivided.output.find("communication.data.inner_backend = \"local-two\", but no "
                                  "strategy divides the axis data"),
            std::string::npos)
      << undivided.output;
}

}  // namespace
}  // namespace cleave
