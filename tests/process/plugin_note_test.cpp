#include "process/plugin_note.h"

#include <gtest/gtest.h>

#include <random>

#include "cleave/error.h"
#include "map_environment.h"
#include "plugin_files.h"
#include "process/plugin_identity.h"

namespace cleave {
namespace {

class PluginNote : public testing::Test {
 protected:
  std::string error_of(const std::string& bytes) const {
    const auto file = folder_.path() / "plugin.so";
    write_file(file, bytes);
    return message_of<ConfigError>([&] { read_plugin_note(file); });
  }

  const std::string good_ = read_file(fixture("communication", "good"));
  test::TemporaryFolder folder_;
};

TEST_F(PluginNote, IsReadWithoutLoadingTheFile) {
  const cleave_identity note =
      read_plugin_note(fixture("communication", "aborting-entry")).identity;
  EXPECT_STREQ(note.name, "aborting-entry");
  EXPECT_EQ(find_identity_conflict(note, CLEAVE_COMMUNICATION, "aborting-entry", host_abi()), "");
}

TEST_F(PluginNote, TellsWhetherLoadingRunsThePluginsOwnCode) {
  // sanitizers add an initialiser to every library
  EXPECT_EQ(read_plugin_note(fixture("communication", "aborting-entry")).runs_initialisers,
            host_abi().sanitizers != 0);
  EXPECT_TRUE(read_plugin_note(fixture("strategy", "hanging-initialiser")).runs_initialisers);
}

TEST_F(PluginNote, SaysOfAnEmptyFileThatItIsEmpty) {
  EXPECT_EQ(error_of(""), "is empty (0 bytes); build or copy it again");
}

TEST_F(PluginNote, RefusesWhatIsNoElfFile) {
  for (const char* text : {"x", "#!/bin/sh\n",
                           "\x7f"
                           "EL!",
                           "this is text, and long enough for a whole "
                           "ELF header, which has no more than sixty-four bytes"})
    EXPECT_EQ(error_of(text), "is not an ELF library; build it with cleave_add_plugin");
}

TEST_F(PluginNote, RefusesAFolderAndAFileThatIsNotThere) {
  for (const auto& path : {folder_.path(), folder_.path() / "absent"})
    EXPECT_EQ(message_of<ConfigError>([&] { read_plugin_note(path); }),
              "is not a regular file; put the plugin's library there");
}

TEST_F(PluginNote, RefusesAFileThatWasCutAnywhere) {
  std::vector<size_t> lengths = {1, 2, 3, 4, 15, 16, 17, 63, 64, 65, good_.size() - 1};
  for (size_t length = 100; length < good_.size(); length += 211) lengths.push_back(length);
  for (size_t length : lengths) {
    const std::string error = error_of(good_.substr(0, length));
    EXPECT_TRUE(error.starts_with("is truncated: its ")) << length << ": " << error;
    EXPECT_TRUE(
        error.ends_with("the file has " + std::to_string(length) + "; build or copy it again"))
        << error;
  }
}

TEST_F(PluginNote, NamesAnotherClassMachineByteOrderOrType) {
  std::string bytes = good_;
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(error_of(bytes),
            "its ELF class is 32-bit where 64-bit is needed; build it for this machine");
  bytes = good_;
  bytes[EI_DATA] = ELFDATA2MSB;
  EXPECT_EQ(error_of(bytes), "its byte order is not this machine's; build it for this machine");
  bytes = good_;
  set_header(bytes, &Elf64_Ehdr::e_machine, Elf64_Half{EM_S390});
  EXPECT_TRUE(error_of(bytes).starts_with("its architecture is s390 where ")) << error_of(bytes);
  set_header(bytes, &Elf64_Ehdr::e_machine, Elf64_Half{9999});
  EXPECT_TRUE(error_of(bytes).starts_with("its architecture is number 9999 where "));
  bytes = good_;
  set_header(bytes, &Elf64_Ehdr::e_type, Elf64_Half{ET_REL});
  EXPECT_EQ(error_of(bytes),
            "is an object file, not a shared library; build it with cleave_add_plugin");
}

TEST_F(PluginNote, RefusesALibraryWithoutNote) {
  EXPECT_EQ(error_of(read_file(fixture("communication", "no-note"))),
            "not a Cleave plugin (it has no note .note.cleave); export a descriptor with "
            "CLEAVE_EXPORT_PLUGIN");
}

TEST_F(PluginNote, RefusesANoteOfAnotherLength) {
  std::string bytes = good_;
  const size_t owner = bytes.find(std::string(CLEAVE_NOTE_OWNER) + '\0');
  ASSERT_NE(owner, std::string::npos);
  const size_t length_at = owner - sizeof(Elf64_Nhdr) + offsetof(Elf64_Nhdr, n_descsz);
  bytes[length_at] = 8;
  bytes[length_at + 1] = 0;
  EXPECT_EQ(error_of(bytes), "its Cleave note has 8 bytes; rebuild it with this program's SDK");
  bytes[length_at] = 16;
  EXPECT_EQ(error_of(bytes), message("its Cleave note has 16 bytes where ", sizeof(cleave_identity),
                                     " are needed; rebuild it with this program's SDK"));
  bytes[length_at + 3] = 0x7f;
  EXPECT_TRUE(error_of(bytes).starts_with("its notes are damaged")) << error_of(bytes);
}

// Either an answer or a ConfigError, never a crash or another exception.
TEST_F(PluginNote, SurvivesDamage) {
  std::mt19937 random(5);
  const auto file = folder_.path() / "plugin.so";
  const size_t front = 0x400;  // headers and notes
  for (int round = 0; round < 600; ++round) {
    std::string bytes = good_.substr(0, front);
    for (int i = 0; i <= round % 4; ++i) bytes[random() % front] = static_cast<char>(random());
    write_file(file, bytes + good_.substr(front));
    try {
      read_plugin_note(file);
    } catch (const ConfigError&) {
    }
  }
}

}  // namespace
}  // namespace cleave
