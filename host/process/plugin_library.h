// A plugin's library in this process.
#pragma once

// std::filesystem instead of Boost.Filesystem: nothing of Boost is linked
#define BOOST_DLL_USE_STD_FS
#include <boost/dll/shared_library.hpp>
#include <filesystem>

#include "cleave/plugin.h"

namespace cleave {

class PluginLibrary {
 public:
  /// Loads `file` through Boost.DLL and runs its static initialisers. It stays loaded until the
  /// process ends, whatever becomes of this object. ConfigError with the linker's own text.
  explicit PluginLibrary(const std::filesystem::path& file);

  /// Calls the entry and compares what it returns with `note`. Never null; ConfigError: no entry,
  /// it throws or returns nothing, or the descriptor is not what the note says.
  const cleave_plugin* descriptor(const cleave_identity& note) const;

 private:
  boost::dll::shared_library library_;
};

}  // namespace cleave
