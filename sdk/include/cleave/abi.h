// The ABI block of the translation unit that includes this.
#pragma once

#include <cstdint>

#include "cleave/plugin.h"

#ifdef CLEAVE_WITH_TORCH
#include <torch/headeronly/version.h>
#endif

#define CLEAVE_STRINGIFY_(x) #x
#define CLEAVE_STRINGIFY(x) CLEAVE_STRINGIFY_(x)

namespace cleave {

/// Inline and constexpr on purpose: it must describe the plugin's build, not the SDK library's.
constexpr cleave_abi this_abi() {
  return {
#ifdef CLEAVE_WITH_TORCH
    TORCH_VERSION,
#else
    "",
#endif
#if defined(__clang__)
        "clang " CLEAVE_STRINGIFY(__clang_major__),
#else
        "gcc " CLEAVE_STRINGIFY(__GNUC__),
#endif
#if defined(_LIBCPP_VERSION)
        "libc++",
#elif defined(_GLIBCXX_DEBUG)
        "libstdc++ debug",
#else
    "libstdc++",
#endif
#if defined(__x86_64__)
        "x86_64",
#elif defined(__aarch64__)
        "aarch64",
#else
        "other",
#endif
#if defined(_GLIBCXX_USE_CXX11_ABI)
        _GLIBCXX_USE_CXX11_ABI,
#else
        0,
#endif
        __GXX_ABI_VERSION,
#if defined(__SANITIZE_ADDRESS__)
        1u,
#else
        0u,
#endif
        0u
  };
}

}  // namespace cleave
