// Tables that no plugin should have.
#include <gtest/gtest.h>

#include <cmath>

#include "config/option_table.h"

namespace cleave {
namespace {

constexpr cleave_option kGood = {"size", CLEAVE_OPTION_INT, "3", 1, 9, nullptr, "", "a size", 0};
const std::string kRemedy = "; correct the plugin's option table and rebuild it";

cleave_option typed(cleave_option_type type, const char* toml, double minimum = 0,
                    double maximum = 0, const char* choices = nullptr, const char* unit = "") {
  return {"size", type, toml, minimum, maximum, choices, unit, "a size", 0};
}

std::string fault_of(const cleave_option& option) {
  return find_option_table_fault(&option, 1);
}

TEST(OptionTableFault, IsNotFoundInAGoodTable) {
  EXPECT_EQ(find_option_table_fault(nullptr, 0), "");
  const cleave_option good[] = {kGood,
                                {"a-b_C", CLEAVE_OPTION_PATH, "\"\"", 0, 0, nullptr, "", "x", 1}};
  EXPECT_EQ(find_option_table_fault(good, 2), "");
  EXPECT_EQ(fault_of(typed(CLEAVE_OPTION_BOOL, "true")), "");
  EXPECT_EQ(fault_of(typed(CLEAVE_OPTION_FLOAT, "1", -HUGE_VAL, HUGE_VAL)), "");
  EXPECT_EQ(fault_of(typed(CLEAVE_OPTION_STRING, "\"\"", 5, 1)), "") << "limits of a string";
  EXPECT_EQ(fault_of(typed(CLEAVE_OPTION_ENUM, "\"b\"", 0, 0, "a|b")), "");
  for (const char* toml : {"true", "\"false\"", "\"auto\""})
    EXPECT_EQ(fault_of(typed(CLEAVE_OPTION_ENUM, toml, 0, 0, "true|false|auto")), "") << toml;
  EXPECT_EQ(fault_of(typed(CLEAVE_OPTION_BYTES, "\"1 KiB\"", 0, 1024)), "");
  EXPECT_EQ(fault_of(typed(CLEAVE_OPTION_DURATION, "\"1 min\"", 0, 60, nullptr, "s")), "");
  EXPECT_EQ(fault_of(typed(CLEAVE_OPTION_STRING_LIST, "[\"a\"]")), "");
  EXPECT_EQ(fault_of(typed(CLEAVE_OPTION_INT_LIST, "[1, 2]", 1, 2)), "");
}

TEST(OptionTableFault, IsAKeyThatCantBe) {
  const cleave_option twice[] = {kGood, kGood};
  EXPECT_EQ(find_option_table_fault(twice, 2), "option size is there twice" + kRemedy);
  EXPECT_EQ(find_option_table_fault(nullptr, 2),
            "the descriptor counts 2 options and has no table" + kRemedy);
  for (const char* key : {static_cast<const char*>(nullptr), "", "a b", "a.b", "ü"}) {
    cleave_option option = kGood;
    option.key = key;
    EXPECT_EQ(fault_of(option), std::string("option 0: its key \"") + (key ? key : "") +
                                    "\" is not a name of letters, digits, - and _" + kRemedy);
  }
}

TEST(OptionTableFault, IsAMissingDoc) {
  for (const char* doc : {static_cast<const char*>(nullptr), ""}) {
    cleave_option option = kGood;
    option.doc = doc;
    EXPECT_EQ(fault_of(option), "option size: no doc" + kRemedy);
  }
}

TEST(OptionTableFault, IsAnUnknownType) {
  for (const int32_t type : {0, -1, 11, 1 << 30}) {
    cleave_option option = kGood;
    option.type = type;
    EXPECT_EQ(fault_of(option), "option size: unknown type " + std::to_string(type) + kRemedy);
  }
}

TEST(OptionTableFault, IsAnEnumWithoutProperChoices) {
  const std::pair<const char*, std::string> wrong[] = {
      {nullptr, "an enum without choices"},    {"", "an enum without choices"},
      {"a|", "an empty choice in \"a|\""},     {"|a", "an empty choice in \"|a\""},
      {"a||b", "an empty choice in \"a||b\""}, {"a|b|a", "choice a is there twice"}};
  for (const auto& [choices, fault] : wrong)
    EXPECT_EQ(fault_of(typed(CLEAVE_OPTION_ENUM, "\"a\"", 0, 0, choices)),
              "option size: " + fault + kRemedy);
}

TEST(OptionTableFault, IsARangeOrAUnitThatCantBe) {
  for (const auto type : {CLEAVE_OPTION_INT, CLEAVE_OPTION_FLOAT, CLEAVE_OPTION_BYTES}) {
    EXPECT_EQ(fault_of(typed(type, "3", 9, 1)),
              "option size: minimum = 9 is above maximum = 1" + kRemedy);
    EXPECT_EQ(fault_of(typed(type, "3", NAN, 1)), "option size: a limit is not a number" + kRemedy);
  }
  for (const char* unit : {static_cast<const char*>(nullptr), "", "seconds", "us"})
    EXPECT_EQ(fault_of(typed(CLEAVE_OPTION_DURATION, "3", 0, 9, nullptr, unit)),
              std::string("option size: unit \"") + (unit ? unit : "") +
                  "\" of a duration; it may be ms, s, min or h" + kRemedy);
}

TEST(OptionTableFault, IsADefaultThatTheOptionItselfWouldRefuse) {
  for (const char* missing : {static_cast<const char*>(nullptr), ""}) {
    cleave_option option = kGood;
    option.default_value = missing;
    EXPECT_EQ(fault_of(option), "option size: no default" + kRemedy);
  }
  const std::pair<cleave_option, std::string> wrong[] = {
      {typed(CLEAVE_OPTION_INT, "0", 1, 9),
       "default = 0 is out of range; expected an integer from 1 to 9"},
      {typed(CLEAVE_OPTION_INT, "3"),
       "default = 3 is out of range; expected an integer from 0 to 0"},
      {typed(CLEAVE_OPTION_INT, "abc", 1, 9),
       "default = abc is not TOML; expected an integer from 1 to 9"},
      {typed(CLEAVE_OPTION_INT, "\"3\"", 1, 9),
       "default = \"3\" is a string; expected an integer from 1 to 9"},
      {typed(CLEAVE_OPTION_INT, "3\nb = 4", 1, 9),
       "default = 3 b = 4 is not TOML; expected an integer from 1 to 9"},
      {typed(CLEAVE_OPTION_FLOAT, "nan", 0, 1),
       "default = nan is out of range; expected a number from 0 to 1"},
      {typed(CLEAVE_OPTION_BOOL, "1"), "default = 1 is an integer; expected true or false"},
      {typed(CLEAVE_OPTION_ENUM, "\"c\"", 0, 0, "a|b"),
       "default = \"c\" is not known; expected one of \"a\", \"b\""},
      {typed(CLEAVE_OPTION_ENUM, "true", 0, 0, "true|auto"),
       "default = true is a boolean; expected one of \"true\", \"auto\""},
      {typed(CLEAVE_OPTION_STRING, "a b"),
       "default = a b is not TOML; expected a string in quotes"},
      {typed(CLEAVE_OPTION_STRING_LIST, "[1]"),
       "default = [1] is an array; expected a list of strings"},
      {typed(CLEAVE_OPTION_INT_LIST, "[0]", 1, 2),
       "default = [0] is out of range; expected a list of integers from 1 to 2"}};
  for (const auto& [option, fault] : wrong)
    EXPECT_EQ(fault_of(option), "option size: " + fault + kRemedy);
}

}  // namespace
}  // namespace cleave
