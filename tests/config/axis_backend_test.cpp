// [communication.<axis>]: which backend serves which axis.
#include <gtest/gtest.h>

#include "support.h"

namespace cleave {
namespace {

/// A complete run whose [communication] and [mesh] begin at run.toml:1:1.
std::string run_with(const std::string& text) {
  Tables tables = complete_run();
  tables.erase("communication");
  tables.erase("mesh");
  return text + to_text(tables);
}

const char* const kMixed = R"([communication.mpi]
segment_bytes = 4096
[communication.ucx]
tls = "tcp"
[communication.data]
inner_backend = "nccl"
[communication.context]
backend = "ucx"
inner_backend = "mpi"
[mesh]
context = 2
)";

TEST(AxisBackend, IsTheRunsWhereNothingIsWritten) {
  const CommunicationConfig communication = load(complete_run()).communication;
  for (const char* axis : {"data", "data.inner", "data.outer", "tensor", "nowhere"})
    EXPECT_EQ(&communication.backend_of(axis), &communication.backend) << axis;
  EXPECT_TRUE(communication.axis_backends.empty());
}

TEST(AxisBackend, IsTheAxissOwnAndItsInnerGroups) {
  const RunConfig config = load(run_with(kMixed));
  const CommunicationConfig& communication = config.communication;
  const std::map<std::string, std::string> expected = {
      {"data", "mpi"},    {"data.outer", "mpi"},    {"data.inner", "nccl"},   {"tensor", "mpi"},
      {"context", "ucx"}, {"context.outer", "ucx"}, {"context.inner", "mpi"}, {"pipeline", "mpi"},
  };
  for (const auto& [axis, backend] : expected)
    EXPECT_EQ(communication.backend_of(axis).name, backend) << axis;
  EXPECT_TRUE(config.where("communication.context.backend")
                  .ends_with("run.toml:8:1: communication.context.backend"));
}

TEST(AxisBackend, EachBackendHasItsOwnOptionsWhereverTheyStand) {
  const CommunicationConfig communication = load(run_with(kMixed)).communication;
  ASSERT_EQ(communication.axis_backends.size(), 2u);
  EXPECT_EQ(communication.axis_backends[0].name, "nccl");
  EXPECT_TRUE(communication.axis_backends[0].options.empty());
  EXPECT_TRUE(communication.axis_backends[0].origin.text.ends_with("run.toml:6:1"));
  ASSERT_EQ(communication.backend_of("context").options.size(), 1u);
  EXPECT_EQ(communication.backend_of("context").options[0].toml, "\"tcp\"");
  ASSERT_EQ(communication.backend.options.size(), 1u);
  EXPECT_EQ(communication.backend.options[0].toml, "4096");
}

TEST(AxisBackend, IsSetOnTheCommandLine) {
  const std::vector<std::string> overrides = {"communication.tensor.backend=nccl",
                                              "communication.nccl.channels=3"};
  const RunConfig config = load(complete_run(), overrides);
  EXPECT_EQ(config.communication.backend_of("tensor").name, "nccl");
  EXPECT_EQ(config.communication.backend_of("tensor").options.at(0).toml, "3");
  EXPECT_EQ(config.communication.backend_of("data").name, "mpi");
  EXPECT_EQ(config.where("communication.tensor.backend"),
            "--set communication.tensor.backend=nccl: communication.tensor.backend");
}

TEST(AxisBackend, PrintsAndLoadsAgain) {
  const RunConfig first = load(run_with(kMixed));
  const std::string printed = print_run_config(first);
  const RunConfig second = load(printed);
  EXPECT_EQ(second.communication.axes.size(), 2u);
  for (const char* axis :
       {"data", "data.inner", "tensor", "context", "context.inner", "context.outer"}) {
    const PluginTable& expected = first.communication.backend_of(axis);
    const PluginTable& again = second.communication.backend_of(axis);
    EXPECT_EQ(again.name, expected.name) << axis;
    ASSERT_EQ(again.options.size(), expected.options.size()) << axis;
    for (size_t i = 0; i < again.options.size(); ++i) {
      EXPECT_EQ(again.options[i].key, expected.options[i].key);
      EXPECT_EQ(again.options[i].toml, expected.options[i].toml);
    }
  }
  EXPECT_NE(printed.find("run.toml:6:1\n"), std::string::npos) << printed;
}

TEST(AxisBackend, RefusesWhatIsNeitherAxisNorBackend) {
  const std::pair<const char*, const char*> wrong[] = {
      {"[communication.tensr]\nbackend = \"nccl\"\n",
       "run.toml:1:1: communication.tensr: neither an axis of the mesh nor a backend in use; did "
       "you mean [communication.tensor]?"},
      {"[communication.contxt]\nbackend = \"nccl\"\n[mesh]\ncontext = 2\n",
       "run.toml:1:1: communication.contxt: neither an axis of the mesh nor a backend in use; did "
       "you mean [communication.context]?"},
      {"[communication.context]\nbackend = \"nccl\"\n",
       "run.toml:1:1: communication.context: options of a backend that is not in use, "
       "communication.backend = \"mpi\"; remove the table or rename it to [communication.mpi]"},
      {"[communication.data]\nbackend = \"nccl\"\n[communication.ucx]\n",
       "run.toml:3:1: communication.ucx: options of a backend that is not in use, "
       "communication.backend = \"mpi\", axes use \"nccl\"; remove the table or rename it to "
       "[communication.mpi]"}};
  for (const auto& [text, expected] : wrong) EXPECT_EQ(error_of(run_with(text)), expected);
}

TEST(AxisBackend, RefusesKeysThatAnAxisDoesNotHave) {
  const std::pair<const char*, const char*> wrong[] = {
      {"[communication.data]\nbackend = \"nccl\"\nbackend_inner = \"mpi\"\n",
       "run.toml:3:1: communication.data.backend_inner: unknown key; [communication.data] has "
       "backend, inner_backend"},
      {"[communication.data]\ntimeout_s = 3\n",
       "run.toml:2:1: communication.data.timeout_s: unknown key; timeout_s belongs in "
       "[communication]"},
      {"[communication.data]\nbackend.name = \"nccl\"\n",
       "run.toml:2:1: communication.data.backend is a table; expected a name in quotes, of "
       "letters, digits, - and _"},
      {"[communication]\ninner_backend = \"nccl\"\n",
       "run.toml:2:1: communication.inner_backend: unknown key; inner_backend belongs in "
       "[communication.<axis>]"},
      {"[communication]\ntensor = \"nccl\"\n",
       "run.toml:2:1: communication.tensor is a string; write a table [communication.tensor]"}};
  for (const auto& [text, expected] : wrong) EXPECT_EQ(error_of(run_with(text)), expected);
  EXPECT_EQ(error_of(complete_run(), {"communication.data.backend.name=nccl"}),
            "--set communication.data.backend.name=nccl: communication.data.backend.name is a key "
            "of a table; expected a name in quotes, of letters, digits, - and _");
}

}  // namespace
}  // namespace cleave
