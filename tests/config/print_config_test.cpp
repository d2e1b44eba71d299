#include <gtest/gtest.h>

#include "support.h"

namespace cleave {
namespace {

const char* const kOrdinary = R"([communication]
backend = "ucx"
[communication.ucx]
tls = "tcp,self"
eager_bytes = 65536
[mesh]
tensor = 2
context = 3
[strategy.zero]
[strategy.ddp]
share = 0.1
"odd key" = "a\"b\\\n\u0001"
size = "25 MiB"
wait = 1.5
names = ["a\"", 'b, c']
ids = [1,
  -2]
none = []
)";

std::string ordinary_run() {
  Tables tables = complete_run();
  tables.erase("communication");
  tables.erase("mesh");
  tables["optimizer"] = {{"lr", "0.00030000000000000003"}, {"epsilon", "1e-8"}, {"beta1", "0"}};
  tables["data"]["ignore_token"] = "5";
  tables["train"]["seed"] = "9223372036854775807";
  return to_text(tables) + kOrdinary;
}

/// All that decides a run, origins left out.
std::string without_comments(const std::string& printed) {
  std::string text;
  for (size_t at = 0; at < printed.size();) {
    const size_t end = printed.find('\n', at);
    const std::string line = printed.substr(at, end - at);
    text += line.substr(0, line.find("  # ")) + "\n";
    at = end + 1;
  }
  return text;
}

TEST(PrintConfig, LoadsAgainToTheSameRun) {
  const RunConfig first = load(ordinary_run(), {"data.path=a\nb\"c", "metrics.trace=true"});
  const RunConfig second = load(print_run_config(first));
  EXPECT_EQ(without_comments(print_run_config(second)), without_comments(print_run_config(first)));
  EXPECT_EQ(second.data.path, "a\nb\"c");
  EXPECT_EQ(second.data.ignore_token, 5);
  EXPECT_EQ(second.train.seed, 9223372036854775807u);
  EXPECT_EQ(second.optimizer.lr, 0.00030000000000000003);
  EXPECT_EQ(second.optimizer.epsilon, 1e-8);
  EXPECT_EQ(second.optimizer.decay_steps, 10);
  EXPECT_EQ(second.model.head_dim, 16);
  EXPECT_EQ(second.mesh, first.mesh);
  EXPECT_TRUE(second.metrics.trace);
  EXPECT_EQ(second.communication.backend.name, "ucx");
  EXPECT_EQ(second.communication.backend.options.size(), 2u);
  ASSERT_EQ(second.strategies.size(), 2u);
  EXPECT_EQ(second.strategies[0].name, "zero");
  ASSERT_EQ(second.strategies[1].options.size(), 7u);
  EXPECT_EQ(second.strategies[1].options[0].toml, "0.1");
  EXPECT_EQ(second.strategies[1].options[1].key, "odd key");
  EXPECT_EQ(second.strategies[1].options[1].toml, R"("a\"b\\\u000A\u0001")");
  EXPECT_EQ(second.strategies[1].options[2].toml, "\"25 MiB\"");
  EXPECT_EQ(second.strategies[1].options[3].toml, "1.5");
  EXPECT_EQ(second.strategies[1].options[4].toml, R"(["a\"", "b, c"])");
  EXPECT_EQ(second.strategies[1].options[5].toml, "[1, -2]");
  EXPECT_EQ(second.strategies[1].options[6].toml, "[]");
}

TEST(PrintConfig, GivesEachOrigin) {
  const std::string text = print_run_config(load(ordinary_run(), {"train.steps=5"}));
  const auto has_line = [&](const std::string& begin, const std::string& end) {
    const size_t at = text.find("\n" + begin + " ");
    return at != std::string::npos &&
           text.substr(at + 1, text.find('\n', at + 1) - at - 1).ends_with(end);
  };
  EXPECT_TRUE(has_line("steps = 5", " # --set")) << text;
  EXPECT_TRUE(has_line("beta2 = 0.95", " # default")) << text;
  EXPECT_TRUE(has_line("architecture = \"qwen2\"", "run.toml:7:1")) << text;
  EXPECT_TRUE(has_line("share = 0.1", "run.toml:32:1")) << text;
}

}  // namespace
}  // namespace cleave
