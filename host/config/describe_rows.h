// Shared by the three forms of a description.
#pragma once

#include <string>
#include <string_view>

#include "process/plugin_probe.h"
#include "value.h"

namespace cleave {

/// A view; valid as long as `option` stays where it is.
cleave_option as_option(const OptionDescription& option);

/// "strategy" or "communication": the first half of the plugin's TOML table.
std::string kind_name(cleave_plugin_kind kind);

/// Throws ConfigError when there is nothing to rely on: the plugin can't be used.
void require_usable(const PluginDescription& plugin);

/// "int", "enum", ...; both kinds of lists are "list".
std::string_view type_name(ValueType type);

}  // namespace cleave
