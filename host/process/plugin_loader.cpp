#include "plugin_loader.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "cleave/error.h"
#include "plugin_identity.h"
#include "plugin_library.h"
#include "plugin_note.h"
#include "plugin_search.h"
#include "plugin_trial.h"

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
  const std::string reason = why_not_built(folders, kind, name);
  const std::vector<std::string> present = list_plugins(folders, kind);
  const std::string nearest = nearest_name(name, present);
  return message(what, " not found in ", join(searched), reason.empty() ? "" : ": " + reason, "; ",
                 nearest.empty() ? "" : "did you mean " + nearest + "? ",
                 present.empty() ? message("there is no ", to_string(kind), " plugin there")
                                 : "available: " + join(present),
                 " (CLEAVE_PLUGIN_PATH adds folders)");
}

/// One version of a file. A library that is built anew has another inode or time.
struct FileVersion {
  dev_t device;
  ino_t inode;
  int64_t modified_ns;
  off_t size;
  auto operator<=>(const FileVersion&) const = default;
};

FileVersion version_of(const fs::path& file) {
  struct stat status;
  if (::stat(file.c_str(), &status) != 0)
    throw ConfigError(message("cannot be read: ", std::strerror(errno), "; check the path"));
  return {status.st_dev, status.st_ino,
          int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec, status.st_size};
}

struct JudgedFile {
  fs::path file;
  PluginNote note;
};

/// What this process knows of plugin files. Without a trial, a load would hand the process to
/// unknown code: a static initialiser that throws ends it, one that hangs never comes back.
///
/// One per process, as the linker's own list of libraries is: with the `local` backend every rank
/// loads the same files, and only the first one pays for the trial. Loads and trials take turns, so
/// that no child is forked while another thread is inside dlopen.
class Loads {
 public:
  static Loads& of_this_process() {
    static Loads loads;
    return loads;
  }

  void try_out(const std::vector<JudgedFile>& files) {
    const std::lock_guard lock(mutex_);
    try_new_ones(files);
  }

  const cleave_plugin* load(const JudgedFile& plugin) {
    const std::lock_guard lock(mutex_);
    try_new_ones({plugin});
    const std::string& error = errors_[version_of(plugin.file)];
    if (!error.empty()) throw ConfigError(error);
    return PluginLibrary(plugin.file).descriptor(plugin.note.identity);
  }

 private:
  void try_new_ones(const std::vector<JudgedFile>& files) {
    std::vector<PluginCandidate> candidates;
    for (const auto& [file, note] : files)
      if (!errors_.contains(version_of(file)) && !fails_at_once(file, note))
        candidates.push_back({file, note.identity});
    const std::vector<PluginTrial> trials = try_plugins(candidates);
    for (size_t i = 0; i < trials.size(); ++i)
      errors_[version_of(candidates[i].file)] = trials[i].error;
  }

  /// Where loading is harmless it is done here already: the child inherits the library instead of
  /// initialising all that this needs a second time (50 ms of UCX under the mpi plugin).
  bool fails_at_once(const fs::path& file, const PluginNote& note) {
    if (note.runs_initialisers) return false;
    try {
      PluginLibrary{file};
      return false;
    } catch (const ConfigError& error) {
      errors_[version_of(file)] = error.what();
      return true;
    }
  }

  std::mutex mutex_;
  std::map<FileVersion, std::string> errors_;  // of those that were tried; "": can be used
};

JudgedFile judge(const fs::path& file, cleave_plugin_kind kind, const std::string& name) {
  const PluginNote note = read_plugin_note(file);
  const std::string conflict = find_identity_conflict(note.identity, kind, name, host_abi());
  if (!conflict.empty()) throw ConfigError(conflict);
  return {file, note};
}

std::optional<fs::path> find(const std::string& what, const std::vector<fs::path>& folders,
                             cleave_plugin_kind kind, const std::string& name) {
  try {
    return find_plugin_file(folders, kind, name);
  } catch (const ConfigError& error) {
    throw ConfigError(message(what, ": ", error.what()));
  }
}

}  // namespace

void prepare_plugins(const RunConfig& config) {
  std::vector<PluginName> wanted = {{CLEAVE_COMMUNICATION, config.communication.backend.name}};
  for (const PluginTable& table : config.communication.axis_backends)
    wanted.push_back({CLEAVE_COMMUNICATION, table.name});
  for (const PluginTable& table : config.strategies)
    wanted.push_back({CLEAVE_STRATEGY, table.name});
  const std::vector<fs::path> folders = plugin_search_path();
  std::vector<JudgedFile> files;
  for (const auto& [kind, name] : wanted) {
    try {
      if (const auto file = find_plugin_file(folders, kind, name))
        files.push_back(judge(*file, kind, name));
    } catch (const ConfigError&) {  // load_plugin will say it, with the position in the config
    }
  }
  Loads::of_this_process().try_out(files);
}

LoadedPlugin load_plugin(cleave_plugin_kind kind, const std::string& name, const Origin& origin) {
  const std::string what = message(origin.text, ": ", to_string(kind), " plugin ", name);
  const std::vector<fs::path> folders = plugin_search_path();
  const std::optional<fs::path> file = find(what, folders, kind, name);
  if (!file) throw ConfigError(not_found(what, kind, name, folders));
  try {
    return {Loads::of_this_process().load(judge(*file, kind, name)), *file};
  } catch (const ConfigError& error) {
    throw ConfigError(message(what, " (", file->string(), "): ", error.what()));
  }
}

}  // namespace cleave
