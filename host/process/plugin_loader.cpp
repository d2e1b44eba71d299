#include "plugin_loader.h"

// std::filesystem instead of Boost.Filesystem below: nothing of Boost is linked
#define BOOST_DLL_USE_STD_FS
#include <dlfcn.h>

#include <boost/dll/shared_library.hpp>

#include "cleave/abi.h"
#include "cleave/error.h"
#include "plugin_identity.h"
#include "plugin_search.h"

namespace cleave {
namespace fs = std::filesystem;
namespace {

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string not_found(const std::string& what, cleave_plugin_kind kind, const std::string& name,
                      const std::vector<fs::path>& folders) {
  std::vector<std::string> searched;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    searched.push_back(folder.string() +
                       (fs::is_directory(folder, ignored) ? "" : " (no such folder)"));
  }
  const std::vector<std::string> present = list_plugins(folders, kind);
  const std::string nearest = nearest_name(name, present);
  return message(what, " not found in ", join(searched), "; ",
                 nearest.empty() ? "" : "did you mean " + nearest + "? ",
                 present.empty() ? message("there is no ", to_string(kind), " plugin there")
                                 : "available: " + join(present),
                 " (CLEAVE_PLUGIN_PATH adds folders)");
}

/// Boost calls a missing library and an undefined symbol alike "Bad file descriptor"; the linker's
/// own text, which names file and symbol, stands in the middle of its message.
std::string linker_text(const std::string& boost_message) {
  constexpr std::string_view kBegin = "dlerror system message: ";
  const size_t begin = boost_message.find(kBegin);
  const size_t end = boost_message.rfind("): ");
  if (begin == boost_message.npos || end == boost_message.npos) return boost_message;
  return boost_message.substr(begin + kBegin.size(), end - begin - kBegin.size());
}

/// Now: an undefined symbol is found here and not in the middle of a step. No-delete: threads and
/// vtables of the plugin may outlive every owner, so dlclose leaves the library where it is.
boost::dll::shared_library open(const fs::path& file) {
  using namespace boost::dll;
  return shared_library(file, load_mode::rtld_now | load_mode::rtld_local |
                                  static_cast<load_mode::type>(RTLD_NODELETE));
}

const cleave_plugin* call_entry(const boost::dll::shared_library& library) {
  if (!library.has(CLEAVE_PLUGIN_ENTRY_SYMBOL)) {
    throw ConfigError("not a Cleave plugin (it has no symbol " CLEAVE_PLUGIN_ENTRY_SYMBOL
                      "); export a descriptor with CLEAVE_EXPORT_PLUGIN");
  }
  const auto& entry = library.get<const cleave_plugin*()>(CLEAVE_PLUGIN_ENTRY_SYMBOL);
  const cleave_plugin* descriptor = nullptr;
  std::string thrown;
  try {
    descriptor = entry();
  } catch (const std::exception& error) {
    thrown = message(" (", error.what(), ")");
  } catch (...) {
    thrown = " (not a std::exception)";
  }
  if (!thrown.empty()) {
    throw ConfigError(message("its entry function threw an exception", thrown,
                              "; export a constant descriptor with CLEAVE_EXPORT_PLUGIN"));
  }
  if (descriptor == nullptr) {
    throw ConfigError(
        "its entry function returned no descriptor; export one with "
        "CLEAVE_EXPORT_PLUGIN");
  }
  return descriptor;
}

const cleave_plugin* load(const fs::path& file, cleave_plugin_kind kind, const std::string& name) {
  try {
    const cleave_plugin* descriptor = call_entry(open(file));
    const std::string conflict = find_identity_conflict(*descriptor, kind, name, this_abi());
    if (!conflict.empty()) throw ConfigError(conflict);
    return descriptor;
  } catch (const boost::dll::fs::system_error& error) {
    throw ConfigError(message("does not load: ", linker_text(error.what()),
                              "; rebuild it, or install the library that it needs"));
  }
}

}  // namespace

LoadedPlugin load_plugin(cleave_plugin_kind kind, const std::string& name, const Origin& origin) {
  const std::string what = message(origin.text, ": ", to_string(kind), " plugin ", name);
  const std::vector<fs::path> folders = plugin_search_path();
  const std::optional<fs::path> file = find_plugin_file(folders, kind, name);
  if (!file) throw ConfigError(not_found(what, kind, name, folders));
  try {
    return {load(*file, kind, name), *file};
  } catch (const ConfigError& error) {
    throw ConfigError(message(what, " (", file->string(), "): ", error.what()));
  }
}

}  // namespace cleave
