// The file of a comparison: what it means, and what is refused with which words.
#include "compare_fixture.h"

#include <gtest/gtest.h>

namespace cleave::test {
namespace {

using Strings = std::vector<std::string>;

const std::string kBase = "config = \"run.toml\"\nranks = [1, 2]\n";

TEST(CompareConfig, HasDefaults) {
  const CompareFolder folder;
  const CompareConfig config = folder.load(kBase);
  EXPECT_EQ(config.run, folder.path() / "run.toml");
  EXPECT_EQ(config.ranks, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(config.repetitions, 3);
  EXPECT_EQ(config.directory, "out/compare");
  EXPECT_EQ(config.limit_s, 600);
  EXPECT_EQ(config.skipped_steps, 2);
  EXPECT_TRUE(config.backends.empty());
  EXPECT_TRUE(config.links.empty());
}

TEST(CompareConfig, ChoicesAreWrittenAsTheRunsFileHasThem) {
  const CompareFolder folder;
  const CompareConfig config = folder.load(kBase + R"(
[strategies]
plain = {strategy.ddp = {}}
both = {strategy.zero.stage = 2, strategy.activation-checkpoint = {}, mesh.data = 2}
[backends.mpi.communication]
backend = "mpi"
[links]
"this machine" = {}
slow = {rate = "200mbit", delay = "5ms"}
)");
  ASSERT_EQ(config.strategies.size(), 2u);
  EXPECT_EQ(config.strategies[0].name, "plain");
  EXPECT_EQ(config.strategies[0].overrides, Strings{"strategy.ddp={}"});
  EXPECT_EQ(config.strategies[1].overrides,
            (Strings{"strategy.zero.stage=2", "strategy.activation-checkpoint={}", "mesh.data=2"}));
  ASSERT_EQ(config.backends.size(), 1u);
  EXPECT_EQ(config.backends[0].overrides, Strings{"communication.backend=\"mpi\""});
  ASSERT_EQ(config.links.size(), 2u);
  EXPECT_FALSE(config.links[0].is_limited);
  EXPECT_TRUE(config.links[1].is_limited);
  EXPECT_EQ(config.links[1].nodes, 2);
  EXPECT_EQ(config.links[1].rate, "200mbit");
  EXPECT_EQ(config.links[1].delay, "5ms");
}

TEST(CompareConfig, OtherTablesAndOverridesReplaceTheRunsKeys) {
  const CompareFolder folder;
  const CompareConfig config =
      folder.load(kBase + "[train]\nsteps = 11\n[links]\nslow = {nodes = 3}\n",
                  {"train.seed=5", "repetitions=1", "links.slow.rate=1gbit",
                   "transforms.half.train.dtype=bfloat16"});
  EXPECT_EQ(config.shared_texts(false), (Strings{"train.steps=11", "train.seed=5"}));
  EXPECT_EQ(config.repetitions, 1);
  ASSERT_EQ(config.links.size(), 1u);
  EXPECT_EQ(config.links[0].nodes, 3);
  EXPECT_EQ(config.links[0].rate, "1gbit");
  ASSERT_EQ(config.transforms.size(), 1u);
  EXPECT_EQ(config.transforms[0].overrides, Strings{"train.dtype=\"bfloat16\""});
  EXPECT_EQ(load_shared_run(config).train.steps, 11);
}

TEST(CompareConfig, RowsAreAllCombinationsAfterOneRank) {
  const CompareFolder folder;
  const CompareConfig config = folder.load(R"(
config = "run.toml"
ranks = [1, 2, 3]
[backends]
a = {communication.backend = "mpi"}
b = {communication.backend = "local"}
[strategies]
x = {strategy.ddp = {}}
y = {strategy.fsdp = {}}
[transforms]
int8 = {strategy.compress = {}}
[strategy.activation-checkpoint]
)");
  const RunConfig run = load_shared_run(config);
  EXPECT_TRUE(run.strategies.empty());  // the file's own give way
  const std::vector<CompareRow> rows = make_rows(config, run);
  ASSERT_EQ(rows.size(), 1u + 2 * 2 * 2 * 2);
  EXPECT_EQ(label(rows[0]), "one rank");
  EXPECT_EQ(label(rows[1]), "2 ranks, a, x");
  EXPECT_EQ(label(rows[2]), "2 ranks, a, x, int8");
  EXPECT_EQ(label(rows[16]), "3 ranks, b, y, int8");
  EXPECT_EQ(rows[16].overrides,
            (Strings{"strategy.activation-checkpoint={}", "communication.backend=\"local\"",
                     "strategy.fsdp={}", "strategy.compress={}"}));
}

TEST(CompareConfig, WithoutChoicesARowIsTheRunItself) {
  const CompareFolder folder(std::string(kRun) + "[mesh]\ntensor = 3\n");
  const CompareConfig config = folder.load("config = \"run.toml\"\nranks = [6]\n");
  const RunConfig run = load_shared_run(config);
  const std::vector<CompareRow> rows = make_rows(config, run);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].overrides, Strings{"mesh.tensor=1"});
  EXPECT_EQ(label(rows[1]), "6 ranks, mpi, ddp");
  EXPECT_TRUE(rows[1].overrides.empty());
}

struct Refusal {
  std::string text;
  std::string message;
};

TEST(CompareConfig, RefusesWithPlaceReasonAndWayOut) {
  const CompareFolder folder;
  const Refusal refusals[] = {
      {"ranks = [2]\n",
       "compare.toml: config is missing; add config = ...: a path in quotes, the run that all rows "
       "share, seen from this file; where [strategies] is there, without its strategies"},
      {"config = \"other.toml\"\nranks = [2]\n",
       "compare.toml:1:1: config: other.toml: no such file; a path is seen from the folder of this "
       "file"},
      {kBase + "repititions = 2\n",
       "compare.toml:3:1: repititions: unknown key; did you mean repetitions?"},
      {kBase + "[stratgies]\n",
       "compare.toml:3:1: stratgies: unknown table; did you mean strategies?"},
      {"config = \"run.toml\"\nranks = []\n",
       "compare.toml:2:1: ranks is empty; give world sizes: [2, 4]"},
      {"config = \"run.toml\"\nranks = [2, 3, 2]\n",
       "compare.toml:2:1: ranks: 2 is there more than once; remove one"},
      {"config = \"run.toml\"\nranks = [0]\n",
       "compare.toml:2:1: ranks = [0] is out of range; expected a list of integers from 1 to "
       "65536"},
      {kBase + "limit_s = \"long\"\n",
       "compare.toml:3:1: limit_s = \"long\" is a string; expected an integer from 1 to 1000000"},
      {kBase + "[limit_s]\nx = 1\n",
       "compare.toml:3:1: limit_s is a table; expected an integer from 1 to 1000000"},
      {kBase + "skipped_steps = 7\n",
       "compare.toml:3:1: skipped_steps = 7 leaves none of 7 steps; give more train.steps"},
      {kBase + "backends = 3\n",
       "compare.toml:3:1: backends is an integer; write a table [backends] of NAME = {...}"},
      {kBase + "[backends]\nmpi = \"mpi\"\n",
       "compare.toml:4:1: backends.mpi is a string; write NAME = {table.key = value}"},
      {kBase + "[backends]\nmpi = {backend = \"mpi\"}\n",
       "compare.toml:4:8: backends.mpi.backend: unknown key; backend belongs in [communication] or "
       "[communication.<axis>]"},
      {kBase + "[backends]\nmpi = {communication.bakend = \"mpi\"}\n",
       "compare.toml:4:22: backends.mpi.communication.bakend: unknown key; did you mean "
       "communication.backend?"},
      {kBase + "[backends]\nmpi = {comunication.backend = \"mpi\"}\n",
       "compare.toml:4:8: backends.mpi.comunication: unknown table; did you mean [communication]?"},
      {kBase + "[strategies]\nddp = {\"strategy.ddp\" = {}}\n",
       "compare.toml:4:8: strategies.ddp.\"strategy.ddp\": one word; write it without quotes: "
       "strategy.ddp"},
      {kBase + "[transforms]\nnone = {}\n",
       "compare.toml:4:1: transforms.none: rows without a transform are always there; remove it"},
      {kBase + "[strategies]\nlong = {train.steps = 9}\n",
       "compare.toml:4:15: strategies.long.train.steps: rows differ in strategies, communication, "
       "mesh, micro-batches and dtype only, or they would not be comparable; for all rows, write "
       "[train] outside of [strategies]"},
      {kBase + "[strategies]\nwide = {model.hidden_size = 9}\n",
       "compare.toml:4:9: strategies.wide.model: rows differ in strategies, communication, mesh, "
       "micro-batches and dtype only, or they would not be comparable; for all rows, write [model] "
       "outside of [strategies]"},
      {kBase + "[links]\nslow = {speed = \"1gbit\"}\n",
       "compare.toml:4:9: links.slow.speed: unknown key; known are nodes, rate, delay"},
      {kBase + "[links]\nslow = {rate = 5}\n",
       "compare.toml:4:9: links.slow.rate = 5 is an integer; expected a string in quotes"},
      {kBase + "[links]\nslow = \"1gbit\"\n",
       "compare.toml:4:1: links.slow is a string; write NAME = {rate = \"1gbit\"}"},
      {kBase + "[checkpoint]\ndirectory = \"x\"\n",
       "compare.toml:4:1: checkpoint.directory: a row would go on from another's "
       "checkpoint; compare without [checkpoint]"},
      {kBase + "[model]\nexport = \"x\"\n",
       "compare.toml:4:1: model.export: every row would write it; compare without "
       "model.export"},
      {kBase + "[train]\nstepps = 3\n",
       "compare.toml:4:1: train.stepps: unknown key; did you mean train.steps?"},
  };
  for (const Refusal& refusal : refusals)
    EXPECT_EQ(folder.refusal(refusal.text), refusal.message) << refusal.text;
}

TEST(CompareConfig, RefusesOverridesByTheirText) {
  const CompareFolder folder;
  EXPECT_EQ(folder.refusal(kBase, {"repetitons=1"}),
            "--set repetitons=1: repetitons: unknown key; did you mean repetitions?");
  EXPECT_EQ(folder.refusal(kBase, {"repetitions"}),
            "--set repetitions: no = in it; write --set table.key=value");
  EXPECT_EQ(folder.refusal(kBase, {"config.x=1"}),
            "--set config.x=1: config.x: config has no keys; expected a path in quotes");
}

}  // namespace
}  // namespace cleave::test
