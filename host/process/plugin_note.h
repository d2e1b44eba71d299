// Reads who a plugin is from its file, without loading it: not one instruction of it runs.
#pragma once

#include <filesystem>

#include "cleave/plugin.h"

namespace cleave {

struct PluginNote {
  /// Where the note belongs to another SDK, fields that it does not have are 0; magic, size and SDK
  /// version are always the plugin's.
  cleave_identity identity;
  /// Loading the library runs code of the plugin itself: it has static initialisers beyond the one
  /// that compilers put into every library.
  bool runs_initialisers;
};

/// Throws ConfigError (without the file's name): unreadable, empty, not ELF, 32-bit, of another
/// machine, no shared library, truncated (segments or sections lie behind the file's end), damaged,
/// no note, two notes.
PluginNote read_plugin_note(const std::filesystem::path& file);

}  // namespace cleave
