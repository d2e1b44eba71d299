#include "compare/machine.h"

#include <spdlog/fmt/fmt.h>
#include <sys/utsname.h>

#include <array>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

namespace cleave {
namespace {

// The text after "<key><anything>: " in a file of /proc.
std::string proc_value(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string memory() {
  std::istringstream value(proc_value("/proc/meminfo", "MemTotal"));
  double kib = 0;
  return value >> kib ? fmt::format("{:.1f} GiB", kib / 1024 / 1024) : "";
}

std::string load_average() {
  std::string minute;
  std::ifstream("/proc/loadavg") >> minute;
  return minute;
}

std::string kernel() {
  utsname name;
  return ::uname(&name) == 0 ? fmt::format("{} {} {}", name.sysname, name.release, name.machine)
                             : "";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> machine_facts() {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"processor", proc_value("/proc/cpuinfo", "model name")},
      {"cores", std::to_string(std::thread::hardware_concurrency())},
      {"memory", memory()},
      {"kernel", kernel()},
      {"load average of the minute before", load_average()}};
  std::erase_if(facts, [](const auto& fact) { return fact.second.empty(); });
  return facts;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts;
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text;
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

}  // namespace cleave
