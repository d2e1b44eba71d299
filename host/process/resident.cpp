#include "resident.h"

#include <fstream>
#include <string>

#include "cleave/error.h"

namespace cleave {
namespace {

/// /proc/self/status has lines such as "VmRSS:     2028 kB".
double status_mib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == key && status >> kib) return kib / 1024;
  }
  throw RuntimeError(message("/proc/self/status: no ", key, " line; mount /proc"));
}

}  // namespace

double resident_mib() {
  return status_mib("VmRSS:");
}
double peak_resident_mib() {
  return status_mib("VmHWM:");
}

}  // namespace cleave
