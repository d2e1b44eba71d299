#include "network_counters.h"

#include <filesystem>
#include <fstream>

namespace cleave {

namespace {

constexpr char kFolder[] = "/sys/class/net";
constexpr int kLoopbackType = 772;  // ARPHRD_LOOPBACK

}  // namespace

std::map<std::string, int64_t> network_sent_bytes() {
  std::map<std::string, int64_t> sent;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, ignored)) {
    int type = kLoopbackType;
    int64_t bytes = 0;
    std::ifstream(entry.path() / "type") >> type;
    if (type != kLoopbackType && std::ifstream(entry.path() / "statistics/tx_bytes") >> bytes)
      sent[entry.path().filename()] = bytes;
  }
  return sent;
}

int64_t total_network_sent_bytes() {
  int64_t total = 0;
  for (const auto& [name, sent] : network_sent_bytes()) total += sent;
  return total;
}

}  // namespace cleave
