#include "process/plugin_identity.h"

#include <gtest/gtest.h>

#include <cstring>

#include "cleave/error.h"

namespace cleave {
namespace {

cleave_abi host_abi() {
  return {"2.11.0", "gcc 12", "libstdc++", "x86_64", 1, 1017, 0, 0};
}

cleave_plugin right_plugin(cleave_plugin_kind kind) {
  cleave_plugin plugin{};
  plugin.magic = CLEAVE_PLUGIN_MAGIC;
  plugin.struct_size = sizeof(cleave_plugin);
  plugin.sdk_major = CLEAVE_SDK_MAJOR;
  plugin.sdk_minor = CLEAVE_SDK_MINOR;
  plugin.kind = kind;
  std::strcpy(plugin.name, "ddp");
  plugin.abi = host_abi();
  return plugin;
}

std::string conflict(const cleave_plugin& plugin, cleave_plugin_kind kind = CLEAVE_STRATEGY) {
  return find_identity_conflict(plugin, kind, "ddp", host_abi());
}

TEST(PluginIdentity, AcceptsTheHostsOwnBuild) {
  EXPECT_EQ(conflict(right_plugin(CLEAVE_STRATEGY)), "");
}

TEST(PluginIdentity, AcceptsAnotherPatchOfLibTorchAndAnotherCompilerVersion) {
  cleave_plugin plugin = right_plugin(CLEAVE_STRATEGY);
  std::strcpy(plugin.abi.torch_version, "2.11.1");
  std::strcpy(plugin.abi.compiler, "gcc 13");
  EXPECT_EQ(conflict(plugin), "");
}

TEST(PluginIdentity, AcceptsACommunicatorWithoutLibTorchOnly) {
  cleave_plugin plugin = right_plugin(CLEAVE_COMMUNICATION);
  plugin.abi.torch_version[0] = '\0';
  EXPECT_EQ(conflict(plugin, CLEAVE_COMMUNICATION), "");
  plugin.kind = CLEAVE_STRATEGY;
  EXPECT_EQ(conflict(plugin),
            "LibTorch is none where 2.11.0 is needed; rebuild it with the compiler and LibTorch of "
            "this program");
}

TEST(PluginIdentity, NamesEveryFieldOfTheBuildThatDiffers) {
  cleave_plugin plugin = right_plugin(CLEAVE_STRATEGY);
  plugin.abi = {"2.12.0", "clang 15", "libc++", "aarch64", 0, 1, 1, 0};
  EXPECT_EQ(conflict(plugin),
            "LibTorch is 2.12.0 where 2.11.0 is needed, compiler is clang 15 where gcc 12 is "
            "needed, standard library is libc++ where libstdc++ is needed, architecture is aarch64 "
            "where x86_64 is needed, C++11 ABI is 0 where 1 is needed, sanitizer is address where "
            "none is needed; rebuild it with the compiler and LibTorch of this program");
}

TEST(PluginIdentity, NamesKindAndName) {
  EXPECT_EQ(find_identity_conflict(right_plugin(CLEAVE_COMMUNICATION), CLEAVE_STRATEGY, "zero",
                                   host_abi()),
            "kind is communication where strategy is needed, name is ddp where zero is needed; "
            "rename the file after what is in it");
}

TEST(PluginIdentity, StopsAtAnotherLayout) {
  cleave_plugin plugin = right_plugin(CLEAVE_STRATEGY);
  plugin.sdk_major = 9;
  plugin.struct_size = 8;
  plugin.kind = 77;
  const std::string text = conflict(plugin);
  EXPECT_TRUE(text.starts_with(message("SDK version is 9.", CLEAVE_SDK_MINOR, " where ",
                                       CLEAVE_SDK_MAJOR, ".", CLEAVE_SDK_MINOR, " is needed")))
      << text;
  EXPECT_NE(text.find("descriptor size is 8 where"), std::string::npos) << text;
  EXPECT_EQ(text.find("kind"), std::string::npos) << text;
}

TEST(PluginIdentity, CallsAnotherMagicNoPlugin) {
  cleave_plugin plugin = right_plugin(CLEAVE_STRATEGY);
  plugin.magic = 0xabc;
  EXPECT_TRUE(conflict(plugin).starts_with(
      "not a Cleave plugin (magic is 0xabc where 0x31564c43 is needed)"))
      << conflict(plugin);
}

TEST(PluginIdentity, ReadsTextWithoutTerminator) {
  cleave_plugin plugin = right_plugin(CLEAVE_STRATEGY);
  std::memset(plugin.name, 'x', sizeof(plugin.name));
  EXPECT_NE(conflict(plugin).find("name is " + std::string(64, 'x') + " where"), std::string::npos);
}

}  // namespace
}  // namespace cleave
