// What a message costs between machines: alpha seconds, and beta seconds a byte.
#pragma once

#include <string>

namespace cleave::mpi {

/// alpha_us: of one message; gb_s: 1e9 bytes a second, in one direction.
struct Link {
  static constexpr const char* kBuiltIn = "built in";
  double alpha_us = 30;
  double gb_s = 1;
  std::string source = kBuiltIn;

  bool is_measured() const { return source != kBuiltIn; }
  double us(double messages, double bytes) const {
    return messages * alpha_us + bytes / (gb_s * 1e3);
  }
};

/// Out of a file that `host bench --json` wrote: its fit of send_recv. ConfigError when it has
/// none, or was measured on one machine while this run has `machines`.
Link read_link(const std::string& path, int machines);

}  // namespace cleave::mpi
