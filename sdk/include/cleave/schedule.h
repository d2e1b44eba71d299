// The order of work on pipeline ranks, as data: made by a strategy, checked, drawn and run by the
// host.
#pragma once

#include <string_view>
#include <vector>

namespace cleave {

/// One thing that a rank does in a step. Units are grouped in chunks, 0.. in forward order; chunk c
/// is on pipeline rank c % ranks.
struct Action {
  enum class Kind {
    forward,
    backward,        ///< both of the following
    backward_input,  ///< gradients of activations, which the chunk before waits for
    backward_weight  ///< gradients of weights, some time after
  } kind;
  int chunk;
  int micro_batch;
  bool operator==(const Action&) const = default;
};

/// Role: says in which order a rank runs micro-batches. At most one per run.
class Scheduler {
 public:
  static constexpr std::string_view kInterface = "cleave.scheduler/draft";
  /// All ranks' actions, by pipeline rank. Pure. Each chunk and micro-batch once forward, and once
  /// backward or once each half; the host refuses an order that can't be run.
  virtual std::vector<std::vector<Action>> schedule(int ranks, int num_micro_batches) = 0;

 protected:
  ~Scheduler() = default;
};

}  // namespace cleave
