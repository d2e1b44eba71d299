// Compares who a plugin is with what this program was built with.
#pragma once

#include <string>

#include "cleave/plugin.h"

namespace cleave {

const char* to_string(cleave_plugin_kind kind);

/// What this program was built with. Of MPI it links none: `mpi` is the family whose launcher
/// started this process ("Open MPI"), "" when another one did or none.
cleave_abi host_abi();

/// What keeps `plugin` from being used as the `kind` plugin `name`, with both values of each field
/// that differs, and what to do; "" when nothing does. `host` is the program's own ABI block.
///
/// Magic, struct size and SDK version come first: when one of them differs, the other fields need
/// not stand where this program looks. Of the ABI, the compiler's family, standard library, debug
/// containers, C++11 ABI, sanitizers and architecture must agree; LibTorch's major and minor
/// version where the plugin uses LibTorch, as every strategy does; CUDA's major version and MPI's
/// family where both sides have one. NCCL is the plugin's own affair.
std::string find_identity_conflict(const cleave_identity& plugin, cleave_plugin_kind kind,
                                   const std::string& name, const cleave_abi& host);

/// How the identity in a plugin's note differs from the one that its code returns: the first field
/// with both values, and what to do; "" when they are equal byte by byte.
std::string find_note_difference(const cleave_identity& note, const cleave_identity& descriptor);

/// "LibTorch 2.11.0, gcc 12, libstdc++, x86_64, Open MPI 5": what is not used is left out.
std::string describe_build(const cleave_abi& abi);

/// A field's text, which a careless plugin need not have terminated; what can't be printed is "?".
template <size_t kCapacity>
std::string printable(const char (&field)[kCapacity]) {
  std::string text;
  for (size_t i = 0; i < kCapacity && field[i] != '\0'; ++i)
    text += field[i] >= ' ' && field[i] <= '~' ? field[i] : '?';
  return text;
}

}  // namespace cleave
