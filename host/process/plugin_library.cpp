#include "plugin_library.h"

#include <dlfcn.h>

#include <string>
#include <string_view>

#include "cleave/error.h"
#include "plugin_identity.h"

namespace cleave {
namespace {

/// Boost calls a missing library and an undefined symbol alike "Bad file descriptor"; the linker's
/// own text, which names file and symbol, stands in the middle of its message.
std::string linker_text(const std::string& boost_message) {
  constexpr std::string_view kBegin = "dlerror system message: ";
  const size_t begin = boost_message.find(kBegin);
  const size_t end = boost_message.rfind("): ");
  if (begin == boost_message.npos || end == boost_message.npos) return boost_message;
  return boost_message.substr(begin + kBegin.size(), end - begin - kBegin.size());
}

const char* remedy(const std::string& text) {
  if (text.find("cannot open shared object file") != text.npos)
    return "install that library, or add its folder to LD_LIBRARY_PATH";
  if (text.find("undefined symbol") != text.npos)
    return "rebuild it with cleave_add_plugin, which finds this when it links";
  return "rebuild it with the compiler and libraries of this program";
}

/// Now: an undefined symbol is found here and not in the middle of a step. No-delete: threads and
/// vtables of the plugin may outlive every owner, so dlclose leaves the library where it is.
boost::dll::shared_library open(const std::filesystem::path& file) {
  using namespace boost::dll;
  try {
    return shared_library(file, load_mode::rtld_now | load_mode::rtld_local |
                                    static_cast<load_mode::type>(RTLD_NODELETE));
  } catch (const fs::system_error& error) {
    const std::string text = linker_text(error.what());
    throw ConfigError(message("does not load: ", text, "; ", remedy(text)));
  }
}

/// What the host is going to call and isn't there; nullptr when nothing is missing.
const char* missing_part(const cleave_plugin& plugin) {
  if (plugin.num_options > 0 && !plugin.options) return "option table (num_options is not 0)";
  if (plugin.identity.kind == CLEAVE_STRATEGY)
    return plugin.create_strategy ? nullptr : "create_strategy";
  if (!plugin.create_communicator) return "create_communicator";
  return plugin.capabilities ? nullptr : "capabilities";
}

}  // namespace

PluginLibrary::PluginLibrary(const std::filesystem::path& file) : library_(open(file)) {}

const cleave_plugin* PluginLibrary::descriptor(const cleave_identity& note) const {
  if (!library_.has(CLEAVE_PLUGIN_ENTRY_SYMBOL))
    throw ConfigError("not a Cleave plugin (it has no symbol " CLEAVE_PLUGIN_ENTRY_SYMBOL
                      "); export a descriptor with CLEAVE_EXPORT_PLUGIN");
  const auto& entry = library_.get<const cleave_plugin*()>(CLEAVE_PLUGIN_ENTRY_SYMBOL);
  const cleave_plugin* descriptor = nullptr;
  std::string thrown;
  try {
    descriptor = entry();
  } catch (const std::exception& error) {
    thrown = message(" (", error.what(), ")");
  } catch (...) {
    thrown = " (not a std::exception)";
  }
  if (!thrown.empty())
    throw ConfigError(message("its entry function threw an exception", thrown,
                              "; export a constant descriptor with CLEAVE_EXPORT_PLUGIN"));
  if (descriptor == nullptr)
    throw ConfigError(
        "its entry function returned no descriptor; export one with "
        "CLEAVE_EXPORT_PLUGIN");
  const std::string difference = find_note_difference(note, descriptor->identity);
  if (!difference.empty()) throw ConfigError(difference);
  if (const char* missing = missing_part(*descriptor))
    throw ConfigError(message("its descriptor has no ", missing, "; set it"));
  return descriptor;
}

}  // namespace cleave
