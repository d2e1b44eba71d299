#include "config/option_table.h"

#include <gtest/gtest.h>

#include "cleave/error.h"
#include "cleave/options.h"

namespace cleave {
namespace {

constexpr cleave_option kOptions[] = {
    {"bucket_bytes", CLEAVE_OPTION_INT, "26214400", 4096, 0x1p40, nullptr, "bytes", "size", 0},
    {"share", CLEAVE_OPTION_FLOAT, "0.5", 0, 1, nullptr, "", "a share", 0},
    {"overlap", CLEAVE_OPTION_BOOL, "true", 0, 0, nullptr, nullptr, "on", 0},
    {"path", CLEAVE_OPTION_STRING, "\"\"", 0, 0, nullptr, "", "a path", 1},
    {"algorithm", CLEAVE_OPTION_ENUM, "\"ring\"", 0, 0, "ring|tree", "", "which", 0}};

OptionValues values_of(const std::vector<std::pair<std::string, std::string>>& options) {
  PluginTable table{"ddp", {"run.toml:20:1"}, {}};
  for (const auto& [key, toml] : options) table.options.push_back({key, toml, {"run.toml:21:1"}});
  return OptionValues("strategy.ddp", kOptions, std::size(kOptions), table);
}

std::string error_of(const std::string& key, const std::string& toml) {
  try {
    values_of({{key, toml}});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(OptionValues, GivesDefaults) {
  const OptionValues values = values_of({});
  ASSERT_EQ(values.view()->count, std::size(kOptions));
  const Options options(values.view());
  EXPECT_EQ(options.integer("bucket_bytes"), 26214400);
  EXPECT_EQ(options.number("share"), 0.5);
  EXPECT_TRUE(options.flag("overlap"));
  EXPECT_EQ(options.text("path"), "");
  EXPECT_EQ(options.text("algorithm"), "ring");
}

TEST(OptionValues, GivesWhatIsWritten) {
  OptionValues moved = values_of({{"bucket_bytes", "4096"},
                                  {"share", "1"},
                                  {"overlap", "false"},
                                  {"path", "\"a\\\"b\""},
                                  {"algorithm", "\"tree\""}});
  const OptionValues values = std::move(moved);
  const Options options(values.view());
  EXPECT_EQ(options.integer("bucket_bytes"), 4096);
  EXPECT_EQ(options.number("share"), 1.0);
  EXPECT_FALSE(options.flag("overlap"));
  EXPECT_EQ(options.text("path"), "a\"b");
  EXPECT_EQ(options.text("algorithm"), "tree");
}

TEST(OptionValues, RefusesWhatTheTableDoesNotTake) {
  EXPECT_EQ(error_of("bucket_byts", "1"),
            "run.toml:21:1: strategy.ddp.bucket_byts: unknown key; did you mean "
            "strategy.ddp.bucket_bytes?");
  EXPECT_EQ(error_of("lr", "1"),
            "run.toml:21:1: strategy.ddp.lr: unknown key; lr belongs in [optimizer]");
  EXPECT_EQ(error_of("zzzzzz", "1"),
            "run.toml:21:1: strategy.ddp.zzzzzz: unknown key; [strategy.ddp] has bucket_bytes, "
            "share, overlap, path, algorithm");
  EXPECT_EQ(error_of("bucket_bytes", "4095"),
            "run.toml:21:1: strategy.ddp.bucket_bytes = 4095 is out of range; expected an integer "
            "from 4096 to 1099511627776 (bytes)");
  EXPECT_EQ(error_of("algorithm", "\"rnig\""),
            "run.toml:21:1: strategy.ddp.algorithm = \"rnig\" is not known; expected one of "
            "\"ring\", \"tree\"");
  EXPECT_EQ(
      error_of("share", "1.5"),
      "run.toml:21:1: strategy.ddp.share = 1.5 is out of range; expected a number from 0 to 1");
  for (const auto& [key, toml] :
       std::vector<std::pair<std::string, std::string>>{{"bucket_bytes", "4096.0"},
                                                        {"bucket_bytes", "\"4096\""},
                                                        {"bucket_bytes", "true"},
                                                        {"bucket_bytes", "9223372036854775807"},
                                                        {"share", "nan"},
                                                        {"share", "\"1\""},
                                                        {"overlap", "1"},
                                                        {"path", "1"},
                                                        {"path", "\"\\u0000\""},
                                                        {"algorithm", "true"}})
    EXPECT_EQ(error_of(key, toml).find("run.toml:21:1: strategy.ddp." + key + " = "), 0u)
        << key << " " << toml << ": " << error_of(key, toml);
}

TEST(OptionValues, RefusesATableWithAFault) {
  const cleave_option twice[] = {kOptions[0], kOptions[1], kOptions[0]};
  const cleave_option wrong_default[] = {
      {"size", CLEAVE_OPTION_INT, "0", 1, 9, nullptr, "", "a size", 0}};
  const PluginTable table{"x", {"run.toml:7:1"}, {{"size", "3", {"run.toml:8:1"}}}};
  const auto error_of_table = [&](const cleave_option* options, uint32_t count) -> std::string {
    try {
      OptionValues("strategy.x", options, count, table);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of_table(twice, 3),
            "run.toml:7:1: strategy.x: option bucket_bytes is there twice; correct the plugin's "
            "option table and rebuild it");
  // the default is wrong even where the file writes another value
  EXPECT_EQ(error_of_table(wrong_default, 1),
            "run.toml:7:1: strategy.x: option size: default = 0 is out of range; expected an "
            "integer from 1 to 9; correct the plugin's option table and rebuild it");
}

TEST(OptionValues, TellsWhatMustBeEqualOnAllRanks) {
  EXPECT_EQ(values_of({{"path", "\"/local/3\""}, {"share", "1"}}).shared_values(),
            "bucket_bytes = 26214400\nshare = 1.0\noverlap = true\nalgorithm = \"ring\"\n");
  EXPECT_EQ(values_of({}).shared_values(), values_of({{"path", "\"/local/4\""}}).shared_values());
  EXPECT_NE(values_of({}).shared_values(), values_of({{"share", "0.6"}}).shared_values());
}

TEST(Options, RefusesAnotherTypeThanTheDeclaredOne) {
  const OptionValues values = values_of({});
  const Options options(values.view());
  EXPECT_EQ(options.number("bucket_bytes"), 26214400.0);
  EXPECT_THROW(options.integer("share"), RuntimeError);
  EXPECT_THROW(options.bytes("bucket_bytes"), RuntimeError);
  EXPECT_THROW(options.duration_ms("bucket_bytes"), RuntimeError);
  EXPECT_THROW(options.flag("bucket_bytes"), RuntimeError);
  EXPECT_THROW(options.text("overlap"), RuntimeError);
  EXPECT_THROW(options.text_list("path"), RuntimeError);
  EXPECT_THROW(options.integer_list("bucket_bytes"), RuntimeError);
  EXPECT_THROW(options.integer("no_such"), RuntimeError);
}

TEST(OptionValues, TakesAPluginWithoutOptions) {
  const PluginTable empty{"x", {}, {}};
  EXPECT_EQ(OptionValues("strategy.x", nullptr, 0, empty).view()->count, 0u);
  const PluginTable one{"x", {}, {{"size", "1", {"run.toml:2:1"}}}};
  try {
    OptionValues("strategy.x", nullptr, 0, one);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "run.toml:2:1: strategy.x.size: unknown key; [strategy.x] takes no keys");
  }
}

TEST(NearestName, FindsTyposAndNothingElse) {
  const std::vector<std::string> names = {"lr", "min_lr", "beta1", "beta2", "micro_batch_size"};
  EXPECT_EQ(nearest_name("rl", names), "lr");
  EXPECT_EQ(nearest_name("LR", names), "lr");
  EXPECT_EQ(nearest_name("betta2", names), "beta2");
  EXPECT_EQ(nearest_name("micro-batch-size", names), "micro_batch_size");
  EXPECT_EQ(nearest_name("optimiser", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name("lr", {}), "");
}

}  // namespace
}  // namespace cleave
