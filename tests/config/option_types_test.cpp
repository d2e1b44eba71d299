// Every type of option: what a file may write for it, and what it gets as an answer otherwise.
#include <gtest/gtest.h>

#include <cmath>

#include "cleave/error.h"
#include "cleave/options.h"
#include "config/option_table.h"
#include "support.h"

namespace cleave {
namespace {

constexpr cleave_option kOptions[] = {
    {"size", CLEAVE_OPTION_BYTES, "\"1 MiB\"", 4096, 0x1p30, nullptr, "bytes", "a size", 0},
    {"wait", CLEAVE_OPTION_DURATION, "2", 1, 3600, nullptr, "s", "a time", 0},
    {"pause", CLEAVE_OPTION_DURATION, "\"1 s\"", 0, HUGE_VAL, nullptr, "ms", "a time", 0},
    {"folder", CLEAVE_OPTION_PATH, "\"\"", 0, 0, nullptr, "", "a path", 1},
    {"names", CLEAVE_OPTION_STRING_LIST, "[\"a\", \"b c\"]", 0, 0, nullptr, "", "names", 0},
    {"ids", CLEAVE_OPTION_INT_LIST, "[]", 0, 9, nullptr, "", "ids", 0},
    {"count", CLEAVE_OPTION_INT, "1", -HUGE_VAL, HUGE_VAL, nullptr, "", "a count", 0},
    {"rate", CLEAVE_OPTION_FLOAT, "1", 0, HUGE_VAL, nullptr, "", "a rate", 0},
    {"keep", CLEAVE_OPTION_ENUM, "\"auto\"", 0, 0, "true|false|auto", "", "a choice", 0}};

/// As a whole file gives it: `assignment` stands at run.toml:21:1.
OptionValues values_of(const std::string& assignment) {
  const RunConfig config = load(to_text(complete_run()) + "[strategy.test]\n" + assignment + "\n");
  return OptionValues("strategy.test", kOptions, std::size(kOptions), config.strategies.at(0));
}

/// Without the folder of the file.
std::string error_of_option(const std::string& assignment) {
  try {
    values_of(assignment);
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    const size_t at = what.find("run.toml");
    return at == std::string::npos ? what : what.substr(at);
  }
  return "";
}

TEST(OptionTypes, GiveDefaults) {
  const OptionValues values = values_of("");
  const Options options(values.view());
  EXPECT_EQ(options.bytes("size"), 1 << 20);
  EXPECT_EQ(options.duration_ms("wait"), 2000);
  EXPECT_EQ(options.duration_ms("pause"), 1000);
  EXPECT_EQ(options.text("folder"), "");
  EXPECT_EQ(options.text_list("names"), (std::vector<std::string_view>{"a", "b c"}));
  EXPECT_TRUE(options.integer_list("ids").empty());
  EXPECT_EQ(options.number("rate"), 1.0);
}

TEST(OptionTypes, TakeSizes) {
  for (const char* toml : {"26214400", "\"25 MiB\"", "\"25MiB\"", "\"25600 KiB\"", "26_214_400",
                           "0x1900000", "'26.2144 MB'"}) {
    const OptionValues values = values_of(std::string("size = ") + toml);
    EXPECT_EQ(Options(values.view()).bytes("size"), 26214400) << toml;
    // one text whatever the spelling: what ranks compare
    EXPECT_EQ(values.shared_values().find("size = 26214400\n"), 0u) << values.shared_values();
  }
}

TEST(OptionTypes, TakeDurations) {
  const std::pair<const char*, int64_t> valid[] = {
      {"30", 30000},         {"1.5", 1500},        {"\"30 s\"", 30000}, {"\"5 min\"", 300000},
      {"\"2000 ms\"", 2000}, {"\"1 h\"", 3600000}, {"3600", 3600000},   {"1.001", 1001}};
  for (const auto& [toml, ms] : valid) {
    const OptionValues values = values_of(std::string("wait = ") + toml);
    EXPECT_EQ(Options(values.view()).duration_ms("wait"), ms) << toml;
  }
  const OptionValues values = values_of("pause = 200");
  EXPECT_EQ(Options(values.view()).duration_ms("pause"), 200);
}

TEST(OptionTypes, TakeListsAndPaths) {
  OptionValues moved = values_of(
      "names = [\"x\", \"\", \"y, z\\n\"]\nids = [\n  9,  # last\n  0\n]\n"
      "folder = \"/a b\"");
  const OptionValues values = std::move(moved);
  const Options options(values.view());
  EXPECT_EQ(options.text_list("names"), (std::vector<std::string_view>{"x", "", "y, z\n"}));
  EXPECT_EQ(options.integer_list("ids"), (std::vector<int64_t>{9, 0}));
  EXPECT_EQ(options.text("folder"), "/a b");
  EXPECT_TRUE(Options(values_of("names = []").view()).text_list("names").empty());
}

TEST(OptionTypes, TakeBooleansWhereTheyAreWordsOfAnEnum) {
  for (const std::string word : {"true", "false"}) {
    const OptionValues bare = values_of("keep = " + word);
    const OptionValues quoted = values_of("keep = \"" + word + "\"");
    EXPECT_EQ(Options(bare.view()).text("keep"), word);
    EXPECT_EQ(bare.shared_values(), quoted.shared_values());
  }
  EXPECT_EQ(Options(values_of("").view()).text("keep"), "auto");
  EXPECT_EQ(Options(values_of("keep = \"auto\"").view()).text("keep"), "auto");
}

TEST(OptionTypes, TakeOverrides) {
  const RunConfig config =
      load(complete_run(), {"strategy.test.size=25MiB", "strategy.test.wait=500 ms",
                            "strategy.test.ids=[1]", "strategy.test.pause=7"});
  const cleave_option longer[] = {
      kOptions[0],
      {"wait", CLEAVE_OPTION_DURATION, "2", 0, 9, nullptr, "s", "a time", 0},
      kOptions[5],
      kOptions[2]};
  const OptionValues values("strategy.test", longer, 4, config.strategies.at(0));
  const Options options(values.view());
  EXPECT_EQ(options.bytes("size"), 25 << 20);
  EXPECT_EQ(options.duration_ms("wait"), 500);
  EXPECT_EQ(options.integer_list("ids"), std::vector<int64_t>{1});
  EXPECT_EQ(options.duration_ms("pause"), 7);
}

TEST(OptionTypes, AnswerWithPositionValueAndWhatIsExpected) {
  const std::string size =
      "expected a number of bytes from 4 KiB to 1 GiB, or a text like \"4 KiB\" "
      "or \"1.5 GB\"";
  const std::string wait =
      "expected a number of s from 1 to 3600, or a text like \"200 ms\", "
      "\"30 s\" or \"5 min\"";
  const std::pair<const char*, std::string> wrong[] = {
      {"size = 4095", "size = 4095 is out of range; " + size},
      {"size = \"2 GiB\"", "size = \"2 GiB\" is out of range; " + size},
      {"size = \"4096\"", "size = \"4096\" is not a size in whole bytes; " + size},
      {"size = \"4 Mb\"", "size = \"4 Mb\" is not a size in whole bytes; " + size},
      {"size = 1e6", "size = 1e+06 is a float; " + size},
      {"size = true", "size = true is a boolean; " + size},
      {"wait = 0", "wait = 0 is out of range; " + wait},
      {"wait = \"2 h\"", "wait = \"2 h\" is out of range; " + wait},
      {"wait = -1", "wait = -1 is out of range; " + wait},
      {"wait = 1.0001", "wait = 1.0001 is not a time in whole milliseconds; " + wait},
      {"wait = inf", "wait = inf is not a time in whole milliseconds; " + wait},
      {"wait = nan", "wait = nan is not a time in whole milliseconds; " + wait},
      {"wait = 9223372036854775807",
       "wait = 9223372036854775807 is not a time in whole milliseconds; " + wait},
      {"wait = \"3 m\"", "wait = \"3 m\" is not a time in whole milliseconds; " + wait},
      {"wait = [1]", "wait = [1] is an array; " + wait},
      {"pause = -1",
       "pause = -1 is out of range; expected a number of ms of at least 0, or a text like \"200 "
       "ms\", \"30 s\" or \"5 min\""},
      {"folder = \"\"", "folder = \"\" is empty; expected a path in quotes"},
      {"folder = 3", "folder = 3 is an integer; expected a path in quotes"},
      {"names = \"a\"", "names = \"a\" is a string; expected a list of strings"},
      {"names = [1, 2]", "names = [1, 2] is an array; expected a list of strings"},
      {"names = [\"a\\u0000\"]",
       "names = [\"a\\u0000\"] holds a zero byte; expected a list of strings"},
      {"ids = [1, 10]", "ids = [1, 10] is out of range; expected a list of integers from 0 to 9"},
      {"ids = [\"1\"]", "ids = [\"1\"] is an array; expected a list of integers from 0 to 9"},
      {"ids = 1", "ids = 1 is an integer; expected a list of integers from 0 to 9"},
      {"count = 1.0", "count = 1.0 is a float; expected an integer"},
      {"rate = -0.5", "rate = -0.5 is out of range; expected a number of at least 0"},
      {"rate = inf", "rate = inf is out of range; expected a number of at least 0"},
      {"keep = 1", "keep = 1 is an integer; expected one of \"true\", \"false\", \"auto\""},
      {"keep = \"True\"",
       "keep = \"True\" is not known; expected one of \"true\", \"false\", \"auto\""},
      {"sizes = 4096", "sizes: unknown key; did you mean strategy.test.size?"}};
  for (const auto& [assignment, expected] : wrong)
    EXPECT_EQ(error_of_option(assignment), "run.toml:21:1: strategy.test." + expected);
}

TEST(OptionTypes, RefuseMixedAndNestedLists) {
  for (const char* toml : {"[1, \"a\"]", "[1.5]", "[true]", "[[1]]", "[1, 2.0]"})
    EXPECT_EQ(error_of_option(std::string("ids = ") + toml),
              "run.toml:21:1: strategy.test.ids is an array; options of a plugin are true, false, "
              "numbers, strings, lists of integers and lists of strings");
}

}  // namespace
}  // namespace cleave
