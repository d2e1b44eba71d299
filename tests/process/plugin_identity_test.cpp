#include "process/plugin_identity.h"

#include <gtest/gtest.h>

#include <cstring>

#include "cleave/error.h"

namespace cleave {
namespace {

constexpr cleave_abi kHost = {"2.11.0",   "gcc 12", "libstdc++", "x86_64", "13.0", "",
                              "Open MPI", 1,        1017,        0,        0};

cleave_identity right_plugin(cleave_plugin_kind kind) {
  return make_identity(kind, "ddp", "1.0", kHost);
}

std::string conflict(const cleave_identity& plugin, cleave_plugin_kind kind = CLEAVE_STRATEGY) {
  return find_identity_conflict(plugin, kind, "ddp", kHost);
}

TEST(PluginIdentity, AcceptsTheHostsOwnBuild) {
  EXPECT_EQ(conflict(right_plugin(CLEAVE_STRATEGY)), "");
}

TEST(PluginIdentity, AcceptsAnotherPatchOfLibTorchAndAnotherCompilerVersion) {
  cleave_identity plugin = right_plugin(CLEAVE_STRATEGY);
  std::strcpy(plugin.abi.torch_version, "2.11.1");
  std::strcpy(plugin.abi.compiler, "gcc 13");
  EXPECT_EQ(conflict(plugin), "");
}

TEST(PluginIdentity, AcceptsACommunicatorWithoutLibTorchOnly) {
  cleave_identity plugin = right_plugin(CLEAVE_COMMUNICATION);
  plugin.abi.torch_version[0] = '\0';
  EXPECT_EQ(conflict(plugin, CLEAVE_COMMUNICATION), "");
  plugin.kind = CLEAVE_STRATEGY;
  EXPECT_EQ(conflict(plugin),
            "LibTorch is none where 2.11.0 is needed; rebuild it with the compiler, flags and "
            "libraries of this program");
}

TEST(PluginIdentity, NamesEveryFieldOfTheBuildThatDiffers) {
  cleave_identity plugin = right_plugin(CLEAVE_STRATEGY);
  plugin.abi = {"2.12.0", "clang 15", "libc++", "aarch64", "12.9", "2.20", "MPICH 4", 0, 1, 3, 1};
  EXPECT_EQ(
      conflict(plugin),
      "LibTorch is 2.12.0 where 2.11.0 is needed, CUDA is 12.9 where 13.0 is needed, MPI is "
      "MPICH 4 where Open MPI (whose launcher started this program) is needed, compiler is "
      "clang 15 where gcc 12 is needed, standard library is libc++ where libstdc++ is needed, "
      "architecture is aarch64 where x86_64 is needed, C++11 ABI is 0 where 1 is needed, "
      "sanitizer is address and thread where none is needed, debug containers is on where off "
      "is needed; rebuild it with the compiler, flags and libraries of this program");
}

TEST(PluginIdentity, ComparesOnlyLibrariesThatBothUse) {
  cleave_identity plugin = right_plugin(CLEAVE_COMMUNICATION);
  set_text(plugin.abi.mpi, "");
  set_text(plugin.abi.cuda_version, "");
  EXPECT_EQ(conflict(plugin, CLEAVE_COMMUNICATION), "");
  plugin = right_plugin(CLEAVE_COMMUNICATION);
  set_text(plugin.abi.mpi, "Open MPI 4");  // of the same family
  set_text(plugin.abi.cuda_version, "13.2");
  set_text(plugin.abi.nccl_version, "2.28.9");
  EXPECT_EQ(conflict(plugin, CLEAVE_COMMUNICATION), "");
}

TEST(PluginIdentity, NamesKindAndName) {
  EXPECT_EQ(
      find_identity_conflict(right_plugin(CLEAVE_COMMUNICATION), CLEAVE_STRATEGY, "zero", kHost),
      "kind is communication where strategy is needed, name is ddp where zero is needed; "
      "rename the file after what is in it");
}

TEST(PluginIdentity, StopsAtAnotherLayout) {
  cleave_identity plugin = right_plugin(CLEAVE_STRATEGY);
  plugin.sdk_major = 9;
  plugin.struct_size = 8;
  plugin.kind = 77;
  const std::string text = conflict(plugin);
  EXPECT_TRUE(text.ends_with("; rebuild it with this program's SDK, or update this program"))
      << text;
  EXPECT_TRUE(text.starts_with(message("SDK version is 9.", CLEAVE_SDK_MINOR, " where ",
                                       CLEAVE_SDK_MAJOR, ".", CLEAVE_SDK_MINOR, " is needed")))
      << text;
  EXPECT_NE(text.find("descriptor size is 8 where"), std::string::npos) << text;
  EXPECT_EQ(text.find("kind"), std::string::npos) << text;
}

TEST(PluginIdentity, CallsAnotherMagicNoPlugin) {
  cleave_identity plugin = right_plugin(CLEAVE_STRATEGY);
  plugin.magic = 0xabc;
  EXPECT_TRUE(conflict(plugin).starts_with(
      "not a Cleave plugin (magic is 0xabc where 0x31564c43 is needed)"))
      << conflict(plugin);
}

TEST(PluginIdentity, ReadsTextWithoutTerminatorOrWithControlCharacters) {
  cleave_identity plugin = right_plugin(CLEAVE_STRATEGY);
  std::memset(plugin.name, 'x', sizeof(plugin.name));
  plugin.name[1] = '\n';
  EXPECT_NE(conflict(plugin).find("name is x?" + std::string(62, 'x') + " where"),
            std::string::npos);
}

TEST(PluginIdentity, NamesTheFirstFieldInWhichNoteAndDescriptorDiffer) {
  const cleave_identity note = right_plugin(CLEAVE_STRATEGY);
  const auto difference = [&](const auto& change) {
    cleave_identity descriptor = note;
    change(descriptor);
    return find_note_difference(note, descriptor);
  };
  EXPECT_EQ(difference([](cleave_identity&) {}), "");
  EXPECT_EQ(
      difference([](cleave_identity& id) { set_text(id.version, "1.1"); }),
      "version: the note says 1.0, the descriptor says 1.1; let CLEAVE_EXPORT_PLUGIN make both");
  EXPECT_TRUE(difference([](cleave_identity& id) {
                id.kind = CLEAVE_COMMUNICATION;
              }).starts_with("kind: the note says strategy, the descriptor says communication"));
  EXPECT_TRUE(difference([](cleave_identity& id) {
                id.abi.gxx_abi = 7;
              }).starts_with("C++ ABI: the note says 1017, the descriptor says 7"));
  EXPECT_TRUE(difference([](cleave_identity& id) {
                id.name[60] = 'x';
              }).starts_with("the note and the descriptor differ behind the end of a text"));
}

// Every single byte counts.
TEST(PluginIdentity, NoticesEveryByteInWhichNoteAndDescriptorDiffer) {
  const cleave_identity note = right_plugin(CLEAVE_STRATEGY);
  for (size_t i = 0; i < sizeof note; ++i) {
    cleave_identity descriptor = note;
    reinterpret_cast<unsigned char*>(&descriptor)[i] ^= 0x20;
    EXPECT_NE(find_note_difference(note, descriptor), "") << "byte " << i;
  }
}

TEST(PluginIdentity, DescribesABuildWithoutWhatItDoesNotUse) {
  EXPECT_EQ(describe_build(kHost),
            "LibTorch 2.11.0, gcc 12, libstdc++, x86_64, CUDA 13.0, Open MPI");
  cleave_abi other = {"", "gcc 12", "libstdc++", "x86_64", "", "2.28.9", "", 0, 1017, 1, 1};
  EXPECT_EQ(describe_build(other),
            "gcc 12, libstdc++, x86_64, NCCL 2.28.9, old C++ ABI, sanitizer address, debug "
            "containers");
}

}  // namespace
}  // namespace cleave
