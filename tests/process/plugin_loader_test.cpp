// Every refusal is one line that begins with the position, names plugin and file, then the field
// with both values, and ends with what to do.
#include "process/plugin_loader.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>

#include "cleave/error.h"
#include "map_environment.h"
#include "plugin_files.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;

const fs::path kFixtures = FIXTURE_FOLDER;

class Loader : public ::testing::Test {
 protected:
  void SetUp() override { search({kFixtures}); }
  void TearDown() override { ::unsetenv("CLEAVE_PLUGIN_PATH"); }

  static void search(const std::vector<fs::path>& folders) {
    std::string path;
    for (const fs::path& folder : folders) path += folder.string() + ":";
    ::setenv("CLEAVE_PLUGIN_PATH", path.c_str(), 1);
  }

  static std::string error_of(cleave_plugin_kind kind, const std::string& name) {
    return message_of<ConfigError>([&] { load_plugin(kind, name, {"run.toml:3:1"}); });
  }

  /// `reason` is what stands between the file and the remedy.
  static void expect_refused(cleave_plugin_kind kind, const std::string& name,
                             const std::string& reason, const std::string& remedy,
                             const fs::path& folder = kFixtures) {
    const std::string kind_name = kind == CLEAVE_STRATEGY ? "strategy" : "communication";
    const std::string file = folder / ("libcleave_" + kind_name + "_" + name + ".so");
    const std::string begin =
        "run.toml:3:1: " + kind_name + " plugin " + name + " (" + file + "): " + reason;
    const std::string text = error_of(kind, name);
    EXPECT_TRUE(text.starts_with(begin)) << text << "\nexpected: " << begin;
    EXPECT_TRUE(text.ends_with("; " + remedy)) << text << "\nexpected: " << remedy;
    EXPECT_EQ(text.find('\n'), text.npos) << text;
  }

  test::TemporaryFolder folder_;
};

constexpr char kRebuild[] = "rebuild it with the compiler, flags and libraries of this program";
constexpr char kRebuildSdk[] = "rebuild it with this program's SDK";
constexpr char kUseMacro[] = "export a constant descriptor with CLEAVE_EXPORT_PLUGIN";

TEST_F(Loader, LoadsACommunicatorBuiltWithoutLibTorch) {
  const LoadedPlugin plugin = load_plugin(CLEAVE_COMMUNICATION, "good", {"run.toml:3:1"});
  EXPECT_STREQ(plugin.descriptor->identity.name, "good");
  EXPECT_STREQ(plugin.descriptor->identity.abi.torch_version, "");
  EXPECT_EQ(plugin.file, kFixtures / "libcleave_communication_good.so");
}

TEST_F(Loader, LoadsAStrategyBuiltWithThisLibTorch) {
  EXPECT_EQ(load_plugin(CLEAVE_STRATEGY, "good", {"run.toml:3:1"}).descriptor->identity.kind,
            uint32_t{CLEAVE_STRATEGY});
}

TEST_F(Loader, KeepsTheLibraryLoadedAndLoadsItOnce) {
  const auto* first = load_plugin(CLEAVE_COMMUNICATION, "good", {""}).descriptor;
  EXPECT_NE(
      ::dlopen((kFixtures / "libcleave_communication_good.so").c_str(), RTLD_NOW | RTLD_NOLOAD),
      nullptr);
  EXPECT_EQ(load_plugin(CLEAVE_COMMUNICATION, "good", {""}).descriptor, first);
}

TEST_F(Loader, LoadsOnceForThreadsThatAskAtTheSameTime) {
  std::vector<const cleave_plugin*> found(16);
  std::vector<std::jthread> threads;
  for (auto& descriptor : found)
    threads.emplace_back([&descriptor] {
      descriptor = load_plugin(CLEAVE_COMMUNICATION, "with-options", {""}).descriptor;
    });
  threads.clear();
  for (const auto* descriptor : found) EXPECT_EQ(descriptor, found[0]);
  EXPECT_NE(found[0], nullptr);
}

TEST_F(Loader, LoadsANewVersionOfAFileThatWasRefused) {
  search({folder_.path()});
  const fs::path file = folder_.path() / "libcleave_communication_throwing-entry.so";
  fs::copy_file(fixture("communication", "throwing-entry"), file);
  expect_refused(CLEAVE_COMMUNICATION, "throwing-entry", "its entry", kUseMacro, folder_.path());
  fs::remove(file);
  const fs::path mended = folder_.path() / "libcleave_communication_good.so";
  fs::copy_file(fixture("communication", "good"), mended);
  EXPECT_EQ(load_plugin(CLEAVE_COMMUNICATION, "good", {""}).file, mended);
}

TEST_F(Loader, PreparesWhatCanBeUsedAndLeavesTheRestToBeRefused) {
  const auto copy = [&](const std::string& kind, const std::string& name) {
    fs::copy_file(fixture(kind, name), folder_.path() / fixture(kind, name).filename());
    return PluginTable{name, {"run.toml:3:1"}, {}};
  };
  RunConfig config{};
  config.communication.backend = copy("communication", "good");
  config.strategies = {copy("strategy", "throwing-initialiser"),
                       copy("strategy", "old-strings"),
                       copy("strategy", "good"),
                       {"absent", {"run.toml:3:1"}, {}}};
  search({folder_.path()});
  prepare_plugins(config);
  EXPECT_NE(load_plugin(CLEAVE_STRATEGY, "good", {""}).descriptor, nullptr);
  EXPECT_NE(load_plugin(CLEAVE_COMMUNICATION, "good", {""}).descriptor, nullptr);
  expect_refused(CLEAVE_STRATEGY, "throwing-initialiser", "loading it, which runs its static ",
                 "do that work in create", folder_.path());
  expect_refused(CLEAVE_STRATEGY, "old-strings", "C++11 ABI is 0", kRebuild, folder_.path());
  EXPECT_NE(error_of(CLEAVE_STRATEGY, "absent").find("not found"), std::string::npos);
}

TEST_F(Loader, SuggestsTheNearestNameAndShowsWhereItLooked) {
  const std::string text = error_of(CLEAVE_COMMUNICATION, "goud");
  EXPECT_TRUE(text.starts_with("run.toml:3:1: communication plugin goud not found in " +
                               kFixtures.string() + ", "))
      << text;
  EXPECT_NE(text.find("; did you mean good? available: "), std::string::npos) << text;
  EXPECT_NE(text.find("minor-above, misnamed, "), std::string::npos) << text;
}

TEST_F(Loader, SaysWhyTheBuildLeftAPluginOut) {
  write_file(folder_.path() / "libcleave_communication_absent.not-built",
             "not built: no library\n");
  search({kFixtures, folder_.path()});
  const std::string text = error_of(CLEAVE_COMMUNICATION, "absent");
  EXPECT_NE(text.find(": not built: no library; "), std::string::npos) << text;
  EXPECT_EQ(error_of(CLEAVE_STRATEGY, "absent").find("built"), std::string::npos);
}

TEST_F(Loader, MarksFoldersThatDoNotExist) {
  ::setenv("CLEAVE_PLUGIN_PATH", "/nowhere/plugins::", 1);
  EXPECT_NE(error_of(CLEAVE_COMMUNICATION, "absent").find("/nowhere/plugins (no such folder)"),
            std::string::npos);
}

TEST_F(Loader, SearchesTheVariablesFoldersInOrderThenTheProgramsOwn) {
  search({"/first", kFixtures});
  const auto folders = plugin_search_path();
  const auto program = fs::read_symlink("/proc/self/exe").parent_path();
  EXPECT_EQ(folders,
            (std::vector<fs::path>{"/first", kFixtures, program.parent_path() / "plugins",
                                   program.parent_path() / "lib/cleave/plugins", program}));
}

TEST_F(Loader, RefusesTwoFilesOfOneNameAndNamesBoth) {
  const fs::path copy = folder_.path() / "libcleave_communication_good.so";
  fs::copy_file(fixture("communication", "good"), copy);
  search({kFixtures, folder_.path()});
  EXPECT_EQ(error_of(CLEAVE_COMMUNICATION, "good"),
            "run.toml:3:1: communication plugin good: there are two files of this name, " +
                fixture("communication", "good").string() + " and " + copy.string() +
                "; remove one of them, or its folder from CLEAVE_PLUGIN_PATH");
}

TEST_F(Loader, TakesOneFileThatIsReachedInSeveralWays) {
  fs::create_symlink(fixture("communication", "good"),
                     folder_.path() / "libcleave_communication_good.so");
  search({kFixtures, folder_.path(), kFixtures});
  EXPECT_EQ(load_plugin(CLEAVE_COMMUNICATION, "good", {""}).file, fixture("communication", "good"));
}

TEST_F(Loader, RefusesTheSameFileUnderASecondName) {
  fs::create_symlink(fixture("communication", "good"),
                     folder_.path() / "libcleave_communication_better.so");
  search({kFixtures, folder_.path()});
  expect_refused(CLEAVE_COMMUNICATION, "better", "name is good where better is needed",
                 "rename the file after what is in it", folder_.path());
}

TEST_F(Loader, RefusesFilesThatAreNoLibraryOfThisMachine) {
  const std::string good = read_file(fixture("communication", "good"));
  search({folder_.path()});
  const auto expect = [&](const std::string& bytes, const std::string& reason,
                          const std::string& remedy) {
    write_file(folder_.path() / "libcleave_communication_file.so", bytes);
    expect_refused(CLEAVE_COMMUNICATION, "file", reason, remedy, folder_.path());
  };
  expect("", "is empty (0 bytes)", "build or copy it again");
  expect("hello, this is a text", "is not an ELF library", "build it with cleave_add_plugin");
  expect(good.substr(0, good.size() / 2), "is truncated: its ", "build or copy it again");
  std::string other = good;
  set_header(other, &Elf64_Ehdr::e_machine, Elf64_Half{EM_ARM});
  expect(other, "its architecture is arm where ", "build it for this machine");
  other = good;
  other[EI_CLASS] = ELFCLASS32;
  expect(other, "its ELF class is 32-bit where 64-bit is needed", "build it for this machine");
}

TEST_F(Loader, ShowsTheLibraryThatIsMissing) {
  std::string bytes = read_file(fixture("communication", "throwing-entry"));
  const std::string needed = "libstdc++.so.6", missing = "libabsent.so.6";
  const size_t at = bytes.find(needed);
  ASSERT_NE(at, bytes.npos);
  bytes.replace(at, needed.size(), missing);
  write_file(folder_.path() / "libcleave_communication_throwing-entry.so", bytes);
  search({folder_.path()});
  expect_refused(CLEAVE_COMMUNICATION, "throwing-entry",
                 "does not load: " + missing +
                     ": cannot open shared object file: No such file or "
                     "directory",
                 "install that library, or add its folder to LD_LIBRARY_PATH", folder_.path());
}

TEST_F(Loader, ShowsTheUndefinedSymbol) {
  const std::string file = fixture("communication", "undefined-symbol");
  expect_refused(CLEAVE_COMMUNICATION, "undefined-symbol",
                 "does not load: " + file + ": undefined symbol: cleave_fixture_nowhere_defined",
                 "rebuild it with cleave_add_plugin, which finds this when it links");
}

TEST_F(Loader, RefusesWhatIsNoPlugin) {
  expect_refused(CLEAVE_COMMUNICATION, "no-note",
                 "not a Cleave plugin (it has no note .note.cleave)",
                 "export a descriptor with CLEAVE_EXPORT_PLUGIN");
  expect_refused(CLEAVE_COMMUNICATION, "no-entry",
                 "not a Cleave plugin (it has no symbol cleave_plugin_entry_v1)",
                 "export a descriptor with CLEAVE_EXPORT_PLUGIN");
  expect_refused(CLEAVE_COMMUNICATION, "bad-magic",
                 "not a Cleave plugin (magic is 0xabc where 0x31564c43 is needed)",
                 "remove the file or build it with the SDK");
}

TEST_F(Loader, RefusesAnotherKindOrName) {
  expect_refused(CLEAVE_STRATEGY, "misplaced", "kind is communication where strategy is needed",
                 "rename the file after what is in it");
  expect_refused(CLEAVE_COMMUNICATION, "misnamed", "name is Misnamed where misnamed is needed",
                 "rename the file after what is in it");
}

TEST_F(Loader, RefusesAnotherSdkOrDescriptorSize) {
  const std::string needed = message(CLEAVE_SDK_MAJOR, ".", CLEAVE_SDK_MINOR, " is needed");
  const std::string update = std::string(kRebuildSdk) + ", or update this program";
  expect_refused(
      CLEAVE_COMMUNICATION, "major-above",
      message("SDK version is ", CLEAVE_SDK_MAJOR + 1, ".", CLEAVE_SDK_MINOR, " where ", needed),
      update);
  expect_refused(
      CLEAVE_COMMUNICATION, "minor-above",
      message("SDK version is ", CLEAVE_SDK_MAJOR, ".", CLEAVE_SDK_MINOR + 1, " where ", needed),
      update);
  expect_refused(
      CLEAVE_COMMUNICATION, "major-below",
      message("SDK version is ", CLEAVE_SDK_MAJOR - 1, ".", CLEAVE_SDK_MINOR, " where ", needed),
      CLEAVE_SDK_MAJOR == 0 ? update : kRebuildSdk);
  const std::string size = message(" where ", sizeof(cleave_plugin), " is needed");
  expect_refused(CLEAVE_COMMUNICATION, "short-size", "descriptor size is 8" + size, kRebuildSdk);
  expect_refused(CLEAVE_COMMUNICATION, "long-size",
                 message("descriptor size is ", sizeof(cleave_plugin) + 8, size), kRebuildSdk);
}

TEST_F(Loader, RefusesAnotherBuild) {
  expect_refused(CLEAVE_STRATEGY, "other-torch", "LibTorch is 1.", kRebuild);
  expect_refused(CLEAVE_STRATEGY, "without-torch", "LibTorch is none where 2.", kRebuild);
  expect_refused(CLEAVE_STRATEGY, "old-strings", "C++11 ABI is 0 where 1 is needed", kRebuild);
  expect_refused(CLEAVE_STRATEGY, "debug-containers", "debug containers is on where off is needed",
                 kRebuild);
  expect_refused(CLEAVE_COMMUNICATION, "sanitized", "sanitizer is ", kRebuild);
}

TEST_F(Loader, RefusesAnEntryThatReturnsNothingOrThrows) {
  expect_refused(CLEAVE_COMMUNICATION, "null-entry", "its entry function returned no descriptor",
                 "export one with CLEAVE_EXPORT_PLUGIN");
  expect_refused(CLEAVE_COMMUNICATION, "throwing-entry",
                 "its entry function threw an exception (no licence)", kUseMacro);
  expect_refused(CLEAVE_COMMUNICATION, "throwing-int",
                 "its entry function threw an exception (not a std::exception)", kUseMacro);
}

TEST_F(Loader, SurvivesAnEntryThatEndsTheProcess) {
  expect_refused(CLEAVE_COMMUNICATION, "aborting-entry",
                 "calling its entry function ended the process by signal 6 (Aborted)", kUseMacro);
  expect_refused(CLEAVE_COMMUNICATION, "exiting-entry",
                 "calling its entry function ended the process with exit code 3", kUseMacro);
}

TEST_F(Loader, SurvivesAnOptionTableThatPointsNowhere) {
  expect_refused(CLEAVE_COMMUNICATION, "wild-options",
                 "reading its option table ended the process by",
                 "end the table where num_options says, with texts in it");
}

TEST_F(Loader, RefusesADescriptorThatLacksWhatItsKindNeeds) {
  expect_refused(CLEAVE_COMMUNICATION, "no-options",
                 "its descriptor has no option table (num_options is not 0)", "set it");
  expect_refused(CLEAVE_COMMUNICATION, "no-create", "its descriptor has no create_communicator",
                 "set it");
  expect_refused(CLEAVE_COMMUNICATION, "no-capabilities", "its descriptor has no capabilities",
                 "set it");
  expect_refused(CLEAVE_STRATEGY, "no-create", "its descriptor has no create_strategy", "set it");
}

TEST_F(Loader, RefusesADescriptorThatIsNotWhatTheNoteSays) {
  expect_refused(CLEAVE_COMMUNICATION, "unlike-note",
                 "version: the note says 1.0, the descriptor says 2.0",
                 "let CLEAVE_EXPORT_PLUGIN make both");
  expect_refused(CLEAVE_COMMUNICATION, "unlike-abi",
                 "MPI: the note says none, the descriptor says M",
                 "let CLEAVE_EXPORT_PLUGIN make both");
}

TEST_F(Loader, SurvivesAStaticInitialiserThatThrows) {
  expect_refused(CLEAVE_STRATEGY, "throwing-initialiser",
                 "loading it, which runs its static initialisers, ended the process by signal 6 "
                 "(Aborted) (terminate called after throwing an instance of 'std::runtime_error' "
                 "what(): no licence)",
                 "do that work in create");
}

// The threads share one trial: one time-out, not one each.
TEST_F(Loader, SurvivesAStaticInitialiserThatHangsForManyThreads) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 30; ++i)
    threads.emplace_back([] {
      expect_refused(CLEAVE_STRATEGY, "hanging-initialiser",
                     "loading it, which runs its static initialisers, did not return within 20 s",
                     "do that work in create");
    });
}

}  // namespace
}  // namespace cleave
