#include "plugin_search.h"

#include <cstdlib>
#include <set>
#include <string_view>
#include <system_error>

#include "plugin_identity.h"
#include "plugin_loader.h"

namespace cleave {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kSuffix = ".so";

std::string file_prefix(cleave_plugin_kind kind) {
  return std::string("libcleave_") + to_string(kind) + "_";
}

}  // namespace

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
  for (const fs::path& folder : folders) {
    std::error_code ignored;  // a folder that can't be read has no plugins
    fs::path file = folder / (file_prefix(kind) + name + std::string(kSuffix));
    if (fs::exists(file, ignored)) return file;
  }
  return std::nullopt;
}

std::vector<std::string> list_plugins(const std::vector<fs::path>& folders,
                                      cleave_plugin_kind kind) {
  const std::string prefix = file_prefix(kind);
  std::set<std::string> names;
  for (const fs::path& folder : folders) {
    std::error_code ignored;  // a folder that can't be read has no plugins
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
      const std::string file = entry.path().filename();
      if (file.size() > prefix.size() + kSuffix.size() && file.starts_with(prefix) &&
          file.ends_with(kSuffix)) {
        names.insert(file.substr(prefix.size(), file.size() - prefix.size() - kSuffix.size()));
      }
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace cleave
