// Every key of the table: misspelt, misplaced, wrong types, out of range.
#include <gtest/gtest.h>

#include <cmath>

#include "cleave/error.h"
#include "config/keys.h"
#include "support.h"

namespace cleave {
namespace {

struct Case {
  std::string table, leaf, name;
  const Key* key;
};

/// The keys of [communication.<axis>] as those of the axis data.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Key& key : keys()) {
    const std::string table(key.table() == kAxisTable ? "communication.data" : key.table());
    const std::string leaf(key.leaf());
    all.push_back({table, leaf, table + "." + leaf, &key});
  }
  return all;
}

std::string error_with(const Case& c, const std::string& value) {
  Tables tables = complete_run();
  tables[c.table][c.leaf] = value;
  return error_of(tables);
}

bool is_textual(ValueType type) {
  return type == ValueType::choice || type == ValueType::path || type == ValueType::name;
}

/// A misspelling must be answered at its line with the right name.
TEST(KeySweep, AnswersEveryMisspelling) {
  for (const Case& c : cases()) {
    if (c.table == "mesh") continue;  // any name may be a plugin's axis; the plan's solver judges
    for (const std::string& wrong : {c.leaf.substr(0, 1) + "x" + c.leaf.substr(1), c.leaf + "x"}) {
      Tables tables = complete_run();
      tables[c.table].erase(c.leaf);
      tables[c.table][wrong] = "1";
      const std::string error = error_of(tables);
      const std::string expected = c.table + "." + wrong + ": unknown key; did you mean " + c.name;
      EXPECT_NE(error.find(":1: " + expected + "?"), std::string::npos) << error;
    }
  }
}

TEST(KeySweep, NamesTheTableOfEveryMisplacedKey) {
  for (const Case& c : cases()) {
    for (const auto table : table_names()) {
      const std::string other(table);
      if (other == "mesh" || other == "strategy" || find_key(other + "." + c.leaf)) continue;
      Tables tables = complete_run();
      tables[other].emplace(c.leaf, "1");
      const std::string error = error_of(tables);
      EXPECT_NE(error.find(other + "." + c.leaf + ": unknown key; " + c.leaf + " belongs in "),
                std::string::npos)
          << error;
      EXPECT_NE(error.find(message("[", c.key->table(), "]")), std::string::npos) << error;
    }
    if (is_table_name(c.leaf)) continue;  // mesh.data
    const std::string error = error_of(c.leaf + " = 1\n" + to_text(complete_run()));
    EXPECT_EQ(error.find("run.toml:1:1: " + c.leaf + ": unknown key; " + c.leaf + " belongs in ["),
              0u)
        << error;
  }
}

TEST(KeySweep, RefusesWrongTypes) {
  for (const Case& c : cases()) {
    std::vector<std::string> wrong = {"[]", "[1, 2]", "{}", "{a = 1}", "1979-05-27", "07:32:00"};
    const ValueType type = c.key->domain.type;
    if (is_textual(type)) wrong.insert(wrong.end(), {"4", "4.0", "true"});
    if (type == ValueType::boolean) wrong.insert(wrong.end(), {"\"true\"", "1", "0.0"});
    if (type == ValueType::integer)
      wrong.insert(wrong.end(), {"\"4\"", "4.0", "true", "1e3", "nan"});
    if (type == ValueType::number) wrong.insert(wrong.end(), {"\"0.5\"", "true"});
    for (const auto& value : wrong) {
      const std::string error = error_with(c, value);
      EXPECT_NE(error.find(":1: " + c.name), std::string::npos) << value << ": " << error;
      EXPECT_NE(error.find(" is a"), std::string::npos) << error;
      EXPECT_NE(error.find("; expected " + describe(c.key->domain)), std::string::npos) << error;
    }
  }
}

TEST(KeySweep, RefusesWhatIsOutOfRange) {
  for (const Case& c : cases()) {
    const Domain& domain = c.key->domain;
    std::vector<std::string> wrong;
    if (domain.type == ValueType::integer) {
      wrong = {std::to_string(static_cast<int64_t>(domain.minimum) - 1), "-1",
               "-9223372036854775808"};
      if (domain.maximum < 0x1p62L)
        wrong.insert(wrong.end(), {std::to_string(static_cast<int64_t>(domain.maximum) + 1),
                                   "4294967297", "9223372036854775807"});
    } else if (domain.type == ValueType::number) {
      wrong = {"nan", "-nan", "inf", "-inf", "-1", "-1e-300"};
      if (domain.minimum_open) wrong.push_back("0");
      if (std::isfinite(domain.maximum)) wrong.insert(wrong.end(), {"1", "1.0", "1e300"});
    }
    for (const auto& value : wrong) {
      const std::string error = error_with(c, value);
      EXPECT_NE(error.find(":1: " + c.name + " = "), std::string::npos) << value << ": " << error;
      EXPECT_NE(error.find(" is out of range; expected " + describe(domain)), std::string::npos)
          << error;
    }
  }
}

TEST(KeySweep, RefusesUnknownTexts) {
  for (const Case& c : cases()) {
    if (!is_textual(c.key->domain.type)) continue;
    for (const std::string value : {"\"\"", "\"a\\u0000b\"", "\"../x y\""}) {
      if (c.key->domain.type == ValueType::path && value == "\"../x y\"") continue;
      EXPECT_NE(error_with(c, value).find(":1: " + c.name + " = \""), std::string::npos) << value;
    }
  }
}

TEST(KeySweep, EveryKeyIsDescribed) {
  for (const Case& c : cases()) {
    EXPECT_FALSE(c.key->doc.empty()) << c.name;
    EXPECT_TRUE(is_table_name(c.key->table()) || c.key->table() == kAxisTable) << c.name;
    EXPECT_EQ(find_key(c.key->name), c.key);
  }
}

}  // namespace
}  // namespace cleave
