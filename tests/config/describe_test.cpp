#include "config/describe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cleave/error.h"
#include "config/keys.h"

namespace cleave {
namespace {

using nlohmann::json;

PluginDescription plugin() {
  PluginDescription plugin{
      "/p/libcleave_strategy_test.so", "", CLEAVE_STRATEGY, "test", "1.2.3", {}, {}};
  const std::string version = "2.11.0";
  std::copy(version.begin(), version.end(), plugin.abi.torch_version);
  plugin.abi.gxx_abi = 1017;
  plugin.options = {
      {"on", CLEAVE_OPTION_BOOL, "true", 0, 0, "", "", "a flag", true},
      {"count", CLEAVE_OPTION_INT, "3", 1, 9, "", "steps", "a count", true},
      {"share", CLEAVE_OPTION_FLOAT, "0.5", 0, HUGE_VAL, "", "", "a | share\nof <b>", true},
      {"size", CLEAVE_OPTION_BYTES, "\"25 MiB\"", 0, 0x1p40, "", "bytes", "a size", true},
      {"wait", CLEAVE_OPTION_DURATION, "30", 1, 60, "", "s", "a time", true},
      {"label", CLEAVE_OPTION_STRING, "\"a|b`\"", 0, 0, "", "", "a text", true},
      {"way", CLEAVE_OPTION_ENUM, "\"ring\"", 0, 0, "ring|tree", "", "a way", true},
      {"names", CLEAVE_OPTION_STRING_LIST, "[\"a\"]", 0, 0, "", "", "names", true},
      {"ids", CLEAVE_OPTION_INT_LIST, "[1, 2]", 0, 9, "", "", "ids", true},
      {"folder", CLEAVE_OPTION_PATH, "\"\"", 0, 0, "", "", "a path", false}};
  return plugin;
}

PluginDescription backend() {
  return {"/p/libcleave_communication_wire.so", "", CLEAVE_COMMUNICATION, "wire", "0.1.0", {}, {}};
}

/// The lines of `text` that begin with `key`.
std::vector<std::string> lines_of(const std::string& text, const std::string& begin) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    if (line.starts_with(begin)) lines.push_back(line);
  }
  return lines;
}

TEST(Describe, AlignsAPluginsOptions) {
  EXPECT_EQ(describe_plugin(plugin()), R"(strategy test 1.2.3
  file  /p/libcleave_strategy_test.so
  use   [strategy.test]

options in [strategy.test]
  key     type             default   accepts     unit   what
  on      bool             true                         a flag
  count   int              3         1 to 9      steps  a count
  share   float            0.5       at least 0         a | share of <b>
  size    bytes            "25 MiB"  0 to 1 TiB  bytes  a size
  wait    duration         30        1 to 60     s      a time
  label   string           "a|b`"                       a text
  way     enum             "ring"    ring, tree         a way
  names   list of strings  ["a"]                        names
  ids     list of ints     [1, 2]    0 to 9             ids
  folder  path             none                         a path (may differ between ranks)
)");
  EXPECT_EQ(describe_plugin(backend()), R"(communication wire 0.1.0
  file  /p/libcleave_communication_wire.so
  use   [communication] backend = "wire"

no options
)");
}

TEST(Describe, ShowsEveryKeyOfTheHost) {
  const std::string text = describe_host();
  for (const Key& key : keys()) {
    const auto lines = lines_of(text, message("  ", key.leaf(), ' '));
    EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.ends_with(key.doc);
    })) << key.name;
  }
  for (const auto table : table_names())
    EXPECT_NE(text.find(message("[", table)), std::string::npos) << table;
  EXPECT_NE(text.find("  beta2         float  0.95      at least 0 and below 1    "),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find(" \n"), std::string::npos) << "space at the end of a line";
}

TEST(Describe, JsonHoldsAllOfAPlugin) {
  const json parsed = json::parse(describe_plugin_json(plugin()));
  EXPECT_EQ(parsed["kind"], "strategy");
  EXPECT_EQ(parsed["name"], "test");
  EXPECT_EQ(parsed["version"], "1.2.3");
  EXPECT_EQ(parsed["file"], "/p/libcleave_strategy_test.so");
  EXPECT_EQ(parsed["abi"]["torch_version"], "2.11.0");
  EXPECT_EQ(parsed["abi"]["gxx_abi"], 1017);
  const json expected = json::parse(R"([
    {"key": "on", "type": "bool", "default": true, "unit": "", "doc": "a flag"},
    {"key": "count", "type": "int", "minimum": 1, "maximum": 9, "default": 3, "unit": "steps",
     "doc": "a count"},
    {"key": "share", "type": "float", "minimum": 0.0, "default": 0.5, "unit": "",
     "doc": "a | share\nof <b>"},
    {"key": "size", "type": "bytes", "minimum": 0, "maximum": 1099511627776, "default": "25 MiB",
     "unit": "bytes", "doc": "a size"},
    {"key": "wait", "type": "duration", "minimum": 1, "maximum": 60, "default": 30, "unit": "s",
     "doc": "a time"},
    {"key": "label", "type": "string", "default": "a|b`", "unit": "", "doc": "a text"},
    {"key": "way", "type": "enum", "choices": ["ring", "tree"], "default": "ring", "unit": "",
     "doc": "a way"},
    {"key": "names", "type": "list", "items": "string", "default": ["a"], "unit": "",
     "doc": "names"},
    {"key": "ids", "type": "list", "items": "int", "minimum": 0, "maximum": 9, "default": [1, 2],
     "unit": "", "doc": "ids"},
    {"key": "folder", "type": "path", "default": "", "unit": "", "doc": "a path"}])");
  ASSERT_EQ(parsed["options"].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    json option = parsed["options"][i];
    EXPECT_EQ(option["same_on_all_ranks"], option["key"] != "folder");
    option.erase("same_on_all_ranks");
    EXPECT_EQ(option, expected[i]);
  }
  EXPECT_TRUE(json::parse(describe_plugin_json(backend()))["options"].empty());
}

TEST(Describe, JsonHoldsAllOfTheHost) {
  const json parsed = json::parse(describe_host_json());
  ASSERT_EQ(parsed["keys"].size(), keys().size());
  for (size_t i = 0; i < keys().size(); ++i) {
    const Key& key = keys()[i];
    const json& entry = parsed["keys"][i];
    EXPECT_EQ(entry["key"], key.name);
    EXPECT_EQ(entry["doc"], key.doc);
    EXPECT_EQ(entry["unit"], key.domain.unit);
    EXPECT_EQ(entry["required"], key.fallback.kind == Default::Kind::required) << key.name;
    EXPECT_EQ(entry.contains("default"), key.fallback.kind == Default::Kind::value) << key.name;
    EXPECT_EQ(entry.contains("choices"), key.domain.type == ValueType::choice) << key.name;
  }
  const auto entry_of = [&](const std::string& name) -> json {
    for (const json& entry : parsed["keys"])
      if (entry["key"] == name) return entry;
    return {};
  };
  EXPECT_EQ(entry_of("data.seed")["maximum"], INT64_MAX);
  EXPECT_EQ(entry_of("optimizer.beta1")["below"], 1.0);
  EXPECT_EQ(entry_of("optimizer.beta1")["default"], 0.9);
  EXPECT_EQ(entry_of("optimizer.lr")["above"], 0.0);
  EXPECT_FALSE(entry_of("optimizer.lr").contains("below"));
  EXPECT_EQ(entry_of("train.dtype")["default"], "float32");
  EXPECT_EQ(entry_of("train.dtype")["choices"], (std::vector<std::string>{"float32", "bfloat16"}));
}

TEST(ReferencePage, HoldsEveryKeyAndOptionOnce) {
  const std::string page = reference_page({plugin(), backend()});
  for (const Key& key : keys())
    EXPECT_FALSE(lines_of(page, message("| `", key.leaf(), "` | ")).empty()) << key.name;
  for (const auto& option : plugin().options)
    EXPECT_EQ(lines_of(page, message("| `", option.key, "` | ")).size(),
              1u + (option.key == "path"))
        << option.key;
  EXPECT_EQ(lines_of(page, "| `share`").at(0),
            "| `share` | float | `0.5` | at least 0 | a \\| share of \\<b> |");
  EXPECT_EQ(lines_of(page, "| `label`").at(0), "| `label` | string | \"a\\|b\\`\" |  | a text |");
  EXPECT_EQ(lines_of(page, "| `wait`").at(0), "| `wait` | duration | `30` | 1 to 60 s | a time |");
  EXPECT_EQ(lines_of(page, "| `folder`").at(0),
            "| `folder` | path | *none* |  | a path (may differ between ranks) |");
}

TEST(ReferencePage, DependsNeitherOnOrderNorOnPlaces) {
  PluginDescription moved = plugin();
  moved.file = "/elsewhere/x.so";
  const std::string page = reference_page({plugin(), backend()});
  EXPECT_EQ(reference_page({backend(), moved}), page);
  EXPECT_LT(page.find("### [communication.wire]"), page.find("### [strategy.test]"));
}

std::string refusal(std::string (*describe)(const PluginDescription&),
                    const PluginDescription& plugin) {
  try {
    describe(plugin);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Describe, RefusesAPluginThatCantBeUsed) {
  PluginDescription broken = backend();
  broken.error = "its entry threw; correct it";
  PluginDescription faulty = plugin();
  faulty.options[1].default_value = "abc";
  const auto page = [](const PluginDescription& plugin) { return reference_page({plugin}); };
  for (const auto describe : {&describe_plugin, &describe_plugin_json, +page}) {
    EXPECT_EQ(refusal(describe, broken),
              "communication plugin wire (/p/libcleave_communication_wire.so): its entry threw; "
              "correct it");
    EXPECT_EQ(
        refusal(describe, faulty),
        "strategy plugin test (/p/libcleave_strategy_test.so): option count: default = abc is "
        "not TOML; expected an integer from 1 to 9 (steps); correct the plugin's option table "
        "and rebuild it");
  }
}

}  // namespace
}  // namespace cleave
