#include "config/command_line.h"

#include <gtest/gtest.h>

#include "cleave/error.h"

namespace cleave {
namespace {

CommandLine parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "/somewhere/bin/host");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

std::string error_of(const std::vector<const char*>& arguments) {
  try {
    parse(arguments);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(CommandLine, TrainsByDefault) {
  const CommandLine line = parse({"--config", "run.toml"});
  EXPECT_EQ(line.verb, Verb::train);
  EXPECT_EQ(line.config, "run.toml");
  EXPECT_TRUE(line.overrides.empty());
  EXPECT_FALSE(line.print_config);
  EXPECT_EQ(parse({"train", "--config=run.toml"}).config, "run.toml");
}

TEST(CommandLine, KeepsOverridesAsTheyAreInOrder) {
  const CommandLine line = parse({"--set", "a.b=[1, 2]", "--config", "run.toml", "--set", "a.c=x y",
                                  "--set=a.d=-1", "--print-config"});
  const std::vector<std::string> expected = {"a.b=[1, 2]", "a.c=x y", "a.d=-1"};
  EXPECT_EQ(line.overrides, expected);
  EXPECT_TRUE(line.print_config);
}

TEST(CommandLine, ParsesCheck) {
  const CommandLine line =
      parse({"check", "--config", "run.toml", "--world-size", "64", "--set", "mesh.data=8"});
  EXPECT_EQ(line.verb, Verb::check);
  EXPECT_EQ(line.world_size, 64);
  EXPECT_EQ(line.overrides.size(), 1u);
  EXPECT_FALSE(parse({"check", "--config", "run.toml"}).world_size.has_value());
}

TEST(CommandLine, ParsesExport) {
  const CommandLine line =
      parse({"export", "--config", "run.toml", "--to", "out/hf", "--set", "model.init=random"});
  EXPECT_EQ(line.verb, Verb::export_model);
  EXPECT_EQ(line.config, "run.toml");
  EXPECT_EQ(line.export_to, "out/hf");
  EXPECT_EQ(line.overrides.size(), 1u);
}

TEST(CommandLine, ParsesBench) {
  const CommandLine line = parse({"bench", "--op", "all_reduce,barrier", "--bytes=8,64KiB",
                                  "--ranks", "3", "--op", "broadcast", "--json", "bench.json"});
  EXPECT_EQ(line.verb, Verb::bench);
  EXPECT_EQ(line.bench.ops, (std::vector<std::string>{"all_reduce", "barrier", "broadcast"}));
  EXPECT_EQ(line.bench.bytes, (std::vector<std::string>{"8", "64KiB"}));
  EXPECT_EQ(line.bench.ranks, 3);
  EXPECT_EQ(line.bench.json, "bench.json");
  EXPECT_EQ(line.bench.dtype, "float32");
  EXPECT_FALSE(parse({"bench"}).bench.ranks.has_value());
}

TEST(CommandLine, ParsesCompare) {
  const CommandLine line = parse({"compare", "--config", "compare.toml", "--set", "repetitions=1",
                                  "--set", "train.steps=5", "--print-rows"});
  EXPECT_EQ(line.verb, Verb::compare);
  EXPECT_EQ(line.config, "compare.toml");
  EXPECT_EQ(line.overrides, (std::vector<std::string>{"repetitions=1", "train.steps=5"}));
  EXPECT_TRUE(line.print_rows);
  const std::string help = parse({"compare", "--help"}).text;
  for (const char* word : {"[strategies]", "repetitions", "limit_s", "--print-rows"})
    EXPECT_NE(help.find(word), std::string::npos) << word;
}

TEST(CommandLine, ParsesPrepare) {
  const CommandLine line = parse(
      {"prepare", "a.txt", "b c.txt", "--output", "data/x", "--document-separator", "<|end|>"});
  EXPECT_EQ(line.verb, Verb::prepare);
  const std::vector<std::filesystem::path> inputs = {"a.txt", "b c.txt"};
  EXPECT_EQ(line.prepare.inputs, inputs);
  EXPECT_EQ(line.prepare.output, "data/x");
  EXPECT_EQ(line.prepare.document_separator, "<|end|>");
  EXPECT_EQ(parse({"prepare", "--output", "x", "a.txt"}).prepare.document_separator, "");
}

TEST(CommandLine, ParsesDescribe) {
  const CommandLine host = parse({"describe"});
  EXPECT_EQ(host.verb, Verb::describe);
  EXPECT_EQ(host.describe.plugin, "");
  EXPECT_FALSE(host.describe.json);
  EXPECT_FALSE(host.describe.markdown);
  const CommandLine plugin = parse({"describe", "strategy.ddp", "--json"});
  EXPECT_EQ(plugin.describe.plugin, "strategy.ddp");
  EXPECT_TRUE(plugin.describe.json);
  EXPECT_TRUE(parse({"describe", "--markdown"}).describe.markdown);
}

TEST(CommandLine, ParsesPlugins) {
  EXPECT_EQ(parse({"plugins"}).verb, Verb::plugins);
  EXPECT_FALSE(parse({"plugins"}).failed_only);
  EXPECT_TRUE(parse({"plugins", "--failed"}).failed_only);
}

TEST(CommandLine, HasHelpAndVersionOnEveryVerb) {
  for (const std::vector<const char*>& verb : std::vector<std::vector<const char*>>{
           {}, {"train"}, {"check"}, {"prepare"}, {"describe"}, {"plugins"}}) {
    auto arguments = verb;
    arguments.push_back("--help");
    const CommandLine help = parse(arguments);
    EXPECT_EQ(help.verb, Verb::help);
    EXPECT_NE(help.text.find("--help"), std::string::npos);
    arguments.back() = "--version";
    EXPECT_EQ(parse(arguments).verb, Verb::version);
  }
  for (const char* verb : {"host prepare", "host describe", "host plugins"})
    EXPECT_NE(parse({"--help"}).text.find(verb), std::string::npos) << verb;
  EXPECT_NE(parse({"--help"}).text.find("--print-config"), std::string::npos);
  EXPECT_NE(parse({"check", "--help"}).text.find("--world-size"), std::string::npos);
  EXPECT_NE(parse({"prepare", "--help"}).text.find("INPUT"), std::string::npos);
}

TEST(CommandLine, RefusesWithOneHelpfulLine) {
  const std::vector<std::pair<std::vector<const char*>, std::string>> wrong = {
      {{}, "host: --config is required; see host --help"},
      {{"export", "--config", "x"}, "host export: --to is required; see host export --help"},
      {{"check"}, "host check: --config is required; see host check --help"},
      {{"trian", "--config", "x"}, "host: trian is not a verb; did you mean train?"},
      {{"run.toml"},
       "host: run.toml is not a verb; the verbs are train, check, verify, bench, compare, prepare, "
       "describe, plugins, export, inspect"},
      {{""},
       "host:  is not a verb; the verbs are train, check, verify, bench, compare, prepare, "
       "describe, plugins, export, inspect"},
      {{"plugin"}, "host: plugin is not a verb; did you mean plugins?"},
      {{"describe", "ddp", "mpi"}, "host describe: mpi is not expected here"},
      {{"describe", "--jsno"}, "host describe: --jsno is not expected here; did you mean --json?"},
      {{"describe", "ddp", "--failed"}, "host describe: --failed is not expected here"},
      {{"describe", "ddp", "--markdown"}, "host describe: PLUGIN excludes --markdown; see"},
      {{"describe", "--markdown", "--json"}, "host describe: --json excludes --markdown; see"},
      {{"plugins", "ddp"}, "host plugins: ddp is not expected here"},
      {{"plugins", "--faild"},
       "host plugins: --faild is not expected here; did you mean --failed?"},
      {{"plan"}, "host plan: not available yet; see host --help"},
      {{"--confg", "x"}, "host: --confg is not expected here; did you mean --config?"},
      {{"--config", "x", "--print-confg"},
       "host: --print-confg is not expected here; did you mean --print-config?"},
      {{"--config", "x", "y"}, "host: y is not expected here; see host --help"},
      {{"--config", "x", "--world-size", "2"},
       "host: --world-size is not expected here; see host --help"},
      {{"check", "--config", "x", "--print-config"}, "host check: --print-config is not expected"},
      {{"--config"}, "host: --config"},
      {{"--config", "x", "--set"}, "host: --set"},
      {{"--config", "x", "--config", "y"}, "host: --config"},
      {{"check", "--config", "x", "--world-size", "0"}, "host check: --world-size"},
      {{"check", "--config", "x", "--world-size", "abc"}, "host check: --world-size"},
      {{"check", "--config", "x", "--world-size", "2.5"}, "host check: --world-size"},
      {{"check", "--config", "x", "--world-size", "4294967297"}, "host check: --world-size"},
      {{"prepare", "--output", "x"}, "host prepare: INPUT is required; see host prepare --help"},
      {{"prepare", "a.txt"}, "host prepare: --output is required; see host prepare --help"}};
  for (const auto& [arguments, expected] : wrong) {
    const std::string error = error_of(arguments);
    EXPECT_EQ(error.find(expected), 0u) << error << "\nwanted: " << expected;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace cleave
