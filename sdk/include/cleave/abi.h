// What the translation unit that includes this was built with, and the note that carries it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cleave/plugin.h"

#ifdef CLEAVE_WITH_TORCH
#include <torch/headeronly/version.h>
#endif

#define CLEAVE_STRINGIFY_(x) #x
#define CLEAVE_STRINGIFY(x) CLEAVE_STRINGIFY_(x)

#if defined(__SANITIZE_ADDRESS__)
#define CLEAVE_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CLEAVE_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define CLEAVE_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CLEAVE_THREAD_SANITIZER 1
#endif
#endif

namespace cleave {

/// Copies `text` into a field of the identity; one that is too long for it does not compile.
template <size_t kCapacity>
constexpr void set_text(char (&field)[kCapacity], std::string_view text) {
  size_t length = 0;
  for (; length < text.size(); ++length) field[length] = text[length];
  for (; length < kCapacity; ++length) field[length] = '\0';
}

/// Static and constexpr on purpose: it must describe the plugin's build, not the SDK library's.
/// CUDA, NCCL and MPI are left to the plugin that uses them.
static constexpr cleave_abi this_abi() {
  cleave_abi abi = {};
#ifdef CLEAVE_WITH_TORCH
  set_text(abi.torch_version, TORCH_VERSION);
#endif
#if defined(__clang__)
  set_text(abi.compiler, "clang " CLEAVE_STRINGIFY(__clang_major__));
#else
  set_text(abi.compiler, "gcc " CLEAVE_STRINGIFY(__GNUC__));
#endif
#if defined(_LIBCPP_VERSION)
  set_text(abi.standard_library, "libc++");
#else
  set_text(abi.standard_library, "libstdc++");
#endif
#if defined(__x86_64__)
  set_text(abi.architecture, "x86_64");
#elif defined(__aarch64__)
  set_text(abi.architecture, "aarch64");
#else
  set_text(abi.architecture, "other");
#endif
#if defined(_GLIBCXX_USE_CXX11_ABI)
  abi.cxx11_abi = _GLIBCXX_USE_CXX11_ABI;
#endif
  abi.gxx_abi = __GXX_ABI_VERSION;
#if defined(CLEAVE_ADDRESS_SANITIZER)
  abi.sanitizers |= 1u;
#endif
#if defined(CLEAVE_THREAD_SANITIZER)
  abi.sanitizers |= 2u;
#endif
#if defined(_GLIBCXX_DEBUG) || defined(_LIBCPP_DEBUG)
  abi.debug_containers = 1;
#endif
  return abi;
}

/// The identity of a plugin that is built with this SDK. A plugin over CUDA, NCCL or MPI passes an
/// `abi` that names its version.
constexpr cleave_identity make_identity(cleave_plugin_kind kind, std::string_view name,
                                        std::string_view version, const cleave_abi& abi) {
  cleave_identity identity = {};
  identity.magic = CLEAVE_PLUGIN_MAGIC;
  identity.struct_size = sizeof(cleave_plugin);
  identity.sdk_major = CLEAVE_SDK_MAJOR;
  identity.sdk_minor = CLEAVE_SDK_MINOR;
  identity.kind = kind;
  set_text(identity.name, name);
  set_text(identity.version, version);
  identity.abi = abi;
  return identity;
}

/// An ELF note (a 4-aligned one: header, owner and content without gaps).
struct IdentityNote {
  uint32_t owner_size;
  uint32_t content_size;
  uint32_t type;
  char owner[8];
  cleave_identity identity;
};
static_assert(sizeof(IdentityNote) == 20 + sizeof(cleave_identity));
static_assert(offsetof(cleave_plugin, identity) == 0);

constexpr IdentityNote make_note(const cleave_identity& identity) {
  return {sizeof CLEAVE_NOTE_OWNER, sizeof(cleave_identity), CLEAVE_NOTE_TYPE, CLEAVE_NOTE_OWNER,
          identity};
}

}  // namespace cleave

// used: the compiler keeps it although nothing refers to it; retain: the linker does, too; and
// clang's address sanitizer puts no gaps around it (gcc's leaves sections with a name alone).
#if defined(__clang__)
#define CLEAVE_NOTE_ATTRIBUTES_ used, retain, no_sanitize("address")
#elif __has_attribute(retain)
#define CLEAVE_NOTE_ATTRIBUTES_ used, retain
#else
#define CLEAVE_NOTE_ATTRIBUTES_ used
#endif
/// Writes a constexpr cleave_identity into the library's note. Part of CLEAVE_EXPORT_PLUGIN.
#define CLEAVE_PLUGIN_NOTE(identity_value)                                   \
  namespace {                                                                \
  __attribute__((section(".note.cleave"), CLEAVE_NOTE_ATTRIBUTES_,           \
                 aligned(4))) constexpr ::cleave::IdentityNote kCleaveNote = \
      ::cleave::make_note(identity_value);                                   \
  }
