#include "resident.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cleave/error.h"

namespace cleave {
namespace {

/// /proc/self/status has lines such as "RssAnon:     2028 kB".
double status_mib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == key && status >> kib) return kib / 1024;
  }
  throw RuntimeError(message("/proc/self/status: no ", key, " line; mount /proc"));
}

double memory_files_mib() {
  double bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    struct stat file {};
    if (!error && target.string().starts_with("/memfd:") && stat(entry.path().c_str(), &file) == 0)
      bytes += 512.0 * static_cast<double>(file.st_blocks);
  }
  return bytes / (1 << 20);
}

}  // namespace

double resident_mib() {
  return status_mib("RssAnon:") + status_mib("RssFile:") + memory_files_mib();
}

}  // namespace cleave
