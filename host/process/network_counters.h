// What the machine's network interfaces have sent, as the kernel counts it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace cleave {

/// tx_bytes of every interface that this process sees, without the loopback ones; empty where the
/// kernel tells nothing. Other programs' traffic counts too.
std::map<std::string, int64_t> network_sent_bytes();
/// Of all of them together.
int64_t total_network_sent_bytes();

}  // namespace cleave
