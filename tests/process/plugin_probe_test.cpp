#include "process/plugin_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "plugin_files.h"
#include "process/plugin_list.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;

class Probe : public testing::Test {
 protected:
  void SetUp() override { ::setenv("CLEAVE_PLUGIN_PATH", folder_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("CLEAVE_PLUGIN_PATH"); }

  fs::path add(const std::string& kind, const std::string& name) const {
    const fs::path source = fixture(kind, name), copy = folder_.path() / source.filename();
    fs::copy_file(source, copy);
    return copy;
  }
  static std::string printed(bool failed) {
    std::ostringstream out;
    print_plugins(out, failed);
    return out.str();
  }

  test::TemporaryFolder folder_;
};

TEST_F(Probe, DescribesAPluginWithItsOptions) {
  const fs::path file = fixture("communication", "with-options");
  const PluginDescription plugin = probe_plugin(file);
  EXPECT_EQ(plugin.error, "");
  EXPECT_EQ(plugin.file, file);
  EXPECT_EQ(plugin.kind, CLEAVE_COMMUNICATION);
  EXPECT_EQ(plugin.name, "with-options");
  EXPECT_EQ(plugin.version, "1.0");
  EXPECT_STREQ(plugin.abi.torch_version, "");
  ASSERT_EQ(plugin.options.size(), 2u);
  const OptionDescription& size = plugin.options[0];
  EXPECT_EQ(size.key, "size");
  EXPECT_EQ(size.type, CLEAVE_OPTION_INT);
  EXPECT_EQ(size.default_value, "4");
  EXPECT_EQ(size.minimum, 1);
  EXPECT_EQ(size.maximum, 8);
  EXPECT_EQ(size.choices, "");
  EXPECT_EQ(size.unit, "bytes");
  EXPECT_EQ(size.doc, "how large");
  EXPECT_TRUE(size.same_on_all_ranks);
  EXPECT_EQ(plugin.options[1].choices, "a|b");
  EXPECT_FALSE(plugin.options[1].same_on_all_ranks);
}

TEST_F(Probe, SaysWhyAPluginCannotBeUsedAndStillWhoItIs) {
  const PluginDescription plugin = probe_plugin(fixture("strategy", "old-strings"));
  EXPECT_TRUE(plugin.error.starts_with("C++11 ABI is 0 where 1 is needed; ")) << plugin.error;
  EXPECT_EQ(plugin.kind, CLEAVE_STRATEGY);
  EXPECT_EQ(plugin.name, "old-strings");
  EXPECT_EQ(plugin.version, "1.0");
  EXPECT_TRUE(plugin.options.empty());
}

TEST_F(Probe, RefusesAFaultyOptionTable) {
  const std::string duplicate = probe_plugin(fixture("communication", "duplicate-option")).error;
  EXPECT_TRUE(duplicate.starts_with("its option table: ")) << duplicate;
  EXPECT_NE(duplicate.find("size"), std::string::npos) << duplicate;
  const std::string unfit = probe_plugin(fixture("communication", "unfit-default")).error;
  EXPECT_TRUE(unfit.starts_with("its option table: ")) << unfit;
  EXPECT_NE(unfit.find("9"), std::string::npos) << unfit;
}

TEST_F(Probe, TakesKindAndNameFromTheFileOfAnotherSdk) {
  const PluginDescription plugin = probe_plugin(fixture("communication", "major-above"));
  EXPECT_TRUE(plugin.error.starts_with("SDK version is ")) << plugin.error;
  EXPECT_EQ(plugin.name, "major-above");
  EXPECT_EQ(plugin.version, "");
}

TEST_F(Probe, RefusesAnotherFileName) {
  EXPECT_EQ(probe_plugin("/lib/libsomething.so").error,
            "its file name is not libcleave_<kind>_<name>.so; rename it");
}

TEST_F(Probe, FindsAllPluginsOfTheSearchPath) {
  add("strategy", "good");
  add("communication", "good");
  add("communication", "null-entry");
  add("communication", "aborting-entry");  // takes its process with it, not those behind it
  write_file(folder_.path() / "libcleave_other_thing.so", "no kind of plugin");
  write_file(folder_.path() / "readme.txt", "no plugin");
  std::vector<std::string> found;
  for (const PluginDescription& plugin : probe_all_plugins())
    if (plugin.file.parent_path() == folder_.path())
      found.push_back(plugin.file.filename().string() + (plugin.error.empty() ? "" : " failed"));
  EXPECT_EQ(found, (std::vector<std::string>{"libcleave_communication_aborting-entry.so failed",
                                             "libcleave_communication_good.so",
                                             "libcleave_communication_null-entry.so failed",
                                             "libcleave_strategy_good.so"}));
}

TEST_F(Probe, MarksBothFilesOfOneName) {
  const fs::path copy = add("communication", "good");
  const test::TemporaryFolder second;
  const fs::path other = second.path() / copy.filename();
  fs::copy_file(copy, other);
  const test::TemporaryFolder third;
  fs::create_symlink(copy, third.path() / copy.filename());  // no third file
  ::setenv("CLEAVE_PLUGIN_PATH",
           (folder_.path().string() + ":" + second.path().string() + ":" + third.path().string())
               .c_str(),
           1);
  std::vector<PluginDescription> found;
  for (const PluginDescription& plugin : probe_all_plugins())
    if (plugin.name == "good") found.push_back(plugin);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].error.starts_with("there is another file of this name, " + other.string()))
      << found[0].error;
  EXPECT_TRUE(found[1].error.starts_with("there is another file of this name, " + copy.string()))
      << found[1].error;
}

// The program's own folder is searched too, so that there may be more lines than these.
TEST_F(Probe, PrintsATableOfTheUsableOnes) {
  const fs::path file = add("communication", "good");
  add("communication", "null-entry");
  const std::string text = printed(false);
  EXPECT_TRUE(text.starts_with("KIND           NAME ")) << text;
  const size_t row = text.find("\ncommunication  good ");
  ASSERT_NE(row, text.npos) << text;
  const std::string line = text.substr(row + 1, text.find('\n', row + 1) - row - 1);
  EXPECT_NE(line.find(" 1.0  "), line.npos) << line;
  EXPECT_NE(line.find("gcc "), line.npos) << line;
  EXPECT_TRUE(line.ends_with("  " + file.string())) << line;
  EXPECT_EQ(text.find("null-entry"), text.npos) << text;
  EXPECT_TRUE(text.ends_with(" can't be used; host plugins --failed says why\n")) << text;
}

TEST_F(Probe, PrintsWhyTheOthersFailed) {
  add("communication", "good");
  const fs::path file = add("communication", "null-entry");
  const std::string text = printed(true);
  EXPECT_NE(text.find("communication plugin null-entry (" + file.string() +
                      "): its entry function returned no descriptor; export one with "
                      "CLEAVE_EXPORT_PLUGIN\n"),
            text.npos)
      << text;
  EXPECT_EQ(text.find("communication plugin good"), text.npos) << text;
}

}  // namespace
}  // namespace cleave
