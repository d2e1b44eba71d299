#include "plugin_search.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "cleave/error.h"
#include "plugin_identity.h"
#include "plugin_loader.h"

namespace cleave {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kSuffix = ".so";

std::string file_prefix(cleave_plugin_kind kind) {
  return std::string("libcleave_") + to_string(kind) + "_";
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;  // one that is gone meanwhile is no other file
  return fs::equivalent(a, b, ignored);
}

}  // namespace

std::optional<PluginName> parse_plugin_file_name(const fs::path& file) {
  const std::string text = file.filename();
  for (cleave_plugin_kind kind : {CLEAVE_COMMUNICATION, CLEAVE_STRATEGY}) {
    const std::string prefix = file_prefix(kind);
    if (text.size() > prefix.size() + kSuffix.size() && text.starts_with(prefix) &&
        text.ends_with(kSuffix))
      return PluginName{kind,
                        text.substr(prefix.size(), text.size() - prefix.size() - kSuffix.size())};
  }
  return std::nullopt;
}

std::vector<fs::path> plugin_search_path() {
  std::vector<fs::path> folders;
  if (const char* variable = std::getenv("CLEAVE_PLUGIN_PATH")) {
    for (std::string_view rest = variable; !rest.empty();) {
      const size_t colon = std::min(rest.find(':'), rest.size());
      if (colon > 0) folders.push_back(fs::absolute(rest.substr(0, colon)));
      rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (!error) {
    const fs::path prefix = program.parent_path();
    folders.insert(folders.end(), {prefix / "plugins", prefix / "lib/cleave/plugins", program});
  }
  return folders;
}

std::optional<fs::path> find_plugin_file(const std::vector<fs::path>& folders,
                                         cleave_plugin_kind kind, const std::string& name) {
  std::optional<fs::path> found;
  for (const fs::path& folder : folders) {
    std::error_code ignored;  // a folder that can't be read has no plugins
    const fs::path file = folder / (file_prefix(kind) + name + std::string(kSuffix));
    if (!fs::exists(file, ignored)) continue;
    if (found && !is_same_file(*found, file))
      throw ConfigError(message("there are two files of this name, ", found->string(), " and ",
                                file.string(),
                                "; remove one of them, or its folder from CLEAVE_PLUGIN_PATH"));
    if (!found) found = file;
  }
  return found;
}

std::string why_not_built(const std::vector<fs::path>& folders, cleave_plugin_kind kind,
                          const std::string& name) {
  std::string reason;
  for (const fs::path& folder : folders)
    if (std::ifstream file(folder / (file_prefix(kind) + name + ".not-built")); file) {
      std::getline(file, reason);
      break;
    }
  return reason;
}

std::vector<fs::path> list_plugin_files(const std::vector<fs::path>& folders) {
  std::map<std::pair<uint32_t, std::string>, std::vector<fs::path>> by_name;
  for (const fs::path& folder : folders) {
    std::error_code ignored;  // a folder that can't be read has no plugins
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
      const std::optional<PluginName> name = parse_plugin_file_name(entry.path());
      if (!name) continue;
      std::vector<fs::path>& files = by_name[{name->kind, name->name}];
      const bool known = std::any_of(files.begin(), files.end(), [&](const fs::path& file) {
        return is_same_file(file, entry.path());
      });
      if (!known) files.push_back(entry.path());
    }
  }
  std::vector<fs::path> all;
  for (const auto& [name, files] : by_name) all.insert(all.end(), files.begin(), files.end());
  return all;
}

std::vector<std::string> list_plugins(const std::vector<fs::path>& folders,
                                      cleave_plugin_kind kind) {
  std::set<std::string> names;
  for (const fs::path& file : list_plugin_files(folders))
    if (const auto name = parse_plugin_file_name(file); name->kind == kind)
      names.insert(name->name);
  return {names.begin(), names.end()};
}

}  // namespace cleave
