// Compares a plugin's descriptor with what this program was built with.
#pragma once

#include <string>

#include "cleave/plugin.h"

namespace cleave {

const char* to_string(cleave_plugin_kind kind);

/// What keeps `plugin` from being used as the `kind` plugin `name`, with both values of each field
/// that differs, and what to do; "" when nothing does. `host` is the program's own ABI block.
///
/// Magic, struct size and SDK version come first: when one of them differs, the other fields need
/// not stand where this program looks. Of the ABI, the compiler's family, standard library, C++11
/// ABI, sanitizers and architecture must agree; LibTorch's major and minor version where the plugin
/// uses LibTorch, as every strategy does.
std::string find_identity_conflict(const cleave_plugin& plugin, cleave_plugin_kind kind,
                                   const std::string& name, const cleave_abi& host);

}  // namespace cleave
