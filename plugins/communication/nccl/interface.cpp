#include <ifaddrs.h>

#include <cstdlib>
#include <memory>
#include <set>

#include "cleave/error.h"
#include "rendezvous.h"

namespace cleave::nccl {
namespace {

constexpr char kVariable[] = "NCCL_SOCKET_IFNAME";

std::set<std::string> interfaces_with_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw ConfigError("communication backend nccl: getifaddrs failed");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::set<std::string> names;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next)
    if (entry->ifa_addr &&
        (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6))
      names.insert(entry->ifa_name);
  return names;
}

}  // namespace

void use_interface(const std::string& name) {
  if (name.empty()) return;
  const std::set<std::string> there = interfaces_with_addresses();
  if (!there.contains(name)) {
    std::string all;
    for (const std::string& one : there) all += (all.empty() ? "" : ", ") + one;
    throw ConfigError(message("communication backend nccl: socket_interface = \"", name,
                              "\" is not an interface of this machine with an address; use one of ",
                              all));
  }
  const std::string exactly = "=" + name;  // NCCL takes a bare name as a prefix
  const char* set = std::getenv(kVariable);
  if (set && set != exactly && set != name)
    throw ConfigError(message("communication backend nccl: socket_interface = \"", name, "\", but ",
                              kVariable, "=", set, " is set; remove one of the two"));
  if (!set) setenv(kVariable, exactly.c_str(), 1);
}

}  // namespace cleave::nccl
