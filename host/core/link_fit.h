// Latency and bandwidth of a link from measured times.
#pragma once

#include <optional>
#include <vector>

namespace cleave {

struct TimedMessage {
  double bytes;  ///< on the wire, per rank
  double us;
};

/// time = alpha + bytes / beta
struct LinkFit {
  double alpha_us;
  double beta_gb_s;
  double deviation;  ///< median of |measured - fitted| / measured
};

/// Least squares of the relative errors (so that 5 us and 500 ms count alike), where a point that
/// is further off than most counts less (Huber's weights, iterated), alpha not negative. Nothing
/// when there are fewer than two sizes or the time does not grow with them.
std::optional<LinkFit> fit_link(const std::vector<TimedMessage>& messages);

}  // namespace cleave
