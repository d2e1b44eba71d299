#include "process/plugin_loader.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cleave/error.h"
#include "map_environment.h"

namespace cleave {
namespace {

const std::filesystem::path kFixtures = FIXTURE_FOLDER;

class Loader : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("CLEAVE_PLUGIN_PATH", FIXTURE_FOLDER, 1); }
  void TearDown() override { ::unsetenv("CLEAVE_PLUGIN_PATH"); }

  static std::string error_of(cleave_plugin_kind kind, const std::string& name) {
    return message_of<ConfigError>([&] { load_plugin(kind, name, {"run.toml:3:1"}); });
  }
  /// Every message begins with the position and, for a file that was found, the file.
  static void expect_refused(cleave_plugin_kind kind, const std::string& name,
                             const std::string& reason) {
    const std::string kind_name = kind == CLEAVE_STRATEGY ? "strategy" : "communication";
    const std::string file = kFixtures / ("libcleave_" + kind_name + "_" + name + ".so");
    const std::string expected =
        "run.toml:3:1: " + kind_name + " plugin " + name + " (" + file + "): " + reason;
    const std::string text = error_of(kind, name);
    EXPECT_TRUE(text.starts_with(expected)) << text << "\nexpected: " << expected;
  }
};

TEST_F(Loader, LoadsACommunicatorBuiltWithoutLibTorch) {
  const LoadedPlugin plugin = load_plugin(CLEAVE_COMMUNICATION, "good", {"run.toml:3:1"});
  EXPECT_STREQ(plugin.descriptor->name, "good");
  EXPECT_STREQ(plugin.descriptor->abi.torch_version, "");
  EXPECT_EQ(plugin.file, kFixtures / "libcleave_communication_good.so");
}

TEST_F(Loader, LoadsAStrategyBuiltWithThisLibTorch) {
  EXPECT_EQ(load_plugin(CLEAVE_STRATEGY, "good", {"run.toml:3:1"}).descriptor->kind,
            uint32_t{CLEAVE_STRATEGY});
}

TEST_F(Loader, KeepsTheLibraryLoadedAndLoadsItOnce) {
  const auto* first = load_plugin(CLEAVE_COMMUNICATION, "good", {""}).descriptor;
  EXPECT_NE(
      ::dlopen((kFixtures / "libcleave_communication_good.so").c_str(), RTLD_NOW | RTLD_NOLOAD),
      nullptr);
  EXPECT_EQ(load_plugin(CLEAVE_COMMUNICATION, "good", {""}).descriptor, first);
}

TEST_F(Loader, SuggestsTheNearestNameAndShowsWhereItLooked) {
  const std::string text = error_of(CLEAVE_COMMUNICATION, "goud");
  EXPECT_TRUE(text.starts_with("run.toml:3:1: communication plugin goud not found in " +
                               kFixtures.string() + ", "))
      << text;
  EXPECT_NE(text.find("; did you mean good? available: "), std::string::npos) << text;
  EXPECT_NE(text.find("null-entry, other-sdk"), std::string::npos) << text;
}

TEST_F(Loader, MarksFoldersThatDoNotExist) {
  ::setenv("CLEAVE_PLUGIN_PATH", "/nowhere/plugins::", 1);
  EXPECT_NE(error_of(CLEAVE_COMMUNICATION, "absent").find("/nowhere/plugins (no such folder)"),
            std::string::npos);
}

TEST_F(Loader, SearchesTheVariablesFoldersInOrderThenTheProgramsOwn) {
  ::setenv("CLEAVE_PLUGIN_PATH", ("/first:" + kFixtures.string()).c_str(), 1);
  const auto folders = plugin_search_path();
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  EXPECT_EQ(folders, (std::vector<std::filesystem::path>{
                         "/first", kFixtures, program.parent_path() / "plugins",
                         program.parent_path() / "lib/cleave/plugins", program}));
}

TEST_F(Loader, ShowsTheLinkersTextForAFileThatIsNoLibrary) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("cleave_loader_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto file = folder / "libcleave_strategy_text.so";
  std::ofstream(file) << "this is not a shared object, though its name says so, and long enough "
                         "that the linker reads a whole header before it gives up";
  ::setenv("CLEAVE_PLUGIN_PATH", folder.c_str(), 1);
  EXPECT_EQ(error_of(CLEAVE_STRATEGY, "text"),
            "run.toml:3:1: strategy plugin text (" + file.string() +
                "): does not load: " + file.string() +
                ": invalid ELF header; rebuild it, or install the library that it needs");
  std::filesystem::remove_all(folder);
}

TEST_F(Loader, ShowsTheUndefinedSymbol) {
  const std::string file = kFixtures / "libcleave_communication_undefined-symbol.so";
  expect_refused(
      CLEAVE_COMMUNICATION, "undefined-symbol",
      "does not load: " + file + ": undefined symbol: cleave_fixture_nowhere_defined; rebuild it");
}

TEST_F(Loader, RefusesALibraryWithoutEntrySymbol) {
  expect_refused(CLEAVE_COMMUNICATION, "no-entry",
                 "not a Cleave plugin (it has no symbol cleave_plugin_entry_v1)");
}

TEST_F(Loader, RefusesAnotherKind) {
  expect_refused(CLEAVE_STRATEGY, "misplaced", "kind is communication where strategy is needed");
}

TEST_F(Loader, RefusesAnotherName) {
  expect_refused(CLEAVE_COMMUNICATION, "misnamed", "name is Misnamed where misnamed is needed");
}

TEST_F(Loader, RefusesAnotherSdk) {
  expect_refused(CLEAVE_COMMUNICATION, "other-sdk", "SDK version is 9.");
}

TEST_F(Loader, RefusesAStrategyOfAnotherLibTorch) {
  expect_refused(CLEAVE_STRATEGY, "other-torch", "LibTorch is 1.");
  expect_refused(CLEAVE_STRATEGY, "without-torch", "LibTorch is none where 2.");
}

TEST_F(Loader, RefusesAnEntryThatReturnsNothing) {
  expect_refused(CLEAVE_COMMUNICATION, "null-entry", "its entry function returned no descriptor");
}

TEST_F(Loader, CatchesWhatTheEntryThrows) {
  expect_refused(CLEAVE_COMMUNICATION, "throwing-entry",
                 "its entry function threw an exception (no licence)");
}

}  // namespace
}  // namespace cleave
