// Runs a rank's actions of a step: receives what they wait for, sends what others wait for.
//
// Receives are started before they are needed, so a backend must not let an operation wait for one
// that was started before it with another peer or in the other direction. What a rank sends to
// another is awaited there in the same order, whatever the schedule of the pipeline plugin
// (schedules_test.cpp), so in place of tags one ordered channel for each sender and receiver will
// do (NCCL: a communicator with a stream of its own).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cleave/comm.h"
#include "cleave/schedule.h"
#include "core/tape.h"

namespace cleave {

/// Busy and whole time of one step's actions.
struct StageTimes {
  double busy_ms = 0;   ///< without waiting for activations or gradients of other ranks
  double whole_ms = 0;  ///< from the first action to the last one's end
};

class StageRunner {
 public:
  struct Context {
    const std::vector<std::unique_ptr<Unit>>& units;  ///< of this rank
    int num_chunks;                                   ///< of all ranks
    Comm& comm;                                       ///< along the pipeline
    std::vector<int64_t> activation_shape;            ///< between units
    at::TensorOptions options;                        ///< of activations
  };
  /// What `context` refers to outlives it, and so does the tape.
  StageRunner(const Context& context, Tape& tape);

  struct Step {
    std::function<MicroBatch(int)> micro_batch;    ///< by index
    std::function<void()> before_backward;         ///< once, before the first one
    std::function<void(int unit)> after_backward;  ///< its gradients of a micro-batch are complete
  };
  StageTimes run(const std::vector<Action>& actions, const Step& step);

 private:
  // What an action waits for: the output of the chunk before, or the gradient from the chunk after.
  struct Message {
    bool is_gradient;
    int chunk;  // that makes it
    int micro_batch;
    auto operator<=>(const Message&) const = default;
  };
  struct Arrival {
    at::Tensor tensor;
    Work work;
  };

  std::optional<Message> input_of(const Action& action) const;
  void expect(const Action& action);
  at::Tensor await(const Action& action);
  void pass_on(const Message& message, const at::Tensor& tensor, int to_chunk);
  void run_action(const Action& action, const Step& step);
  Units units_of(int chunk) const;
  int tag(const Message& message) const;

  Context context_;
  Tape& tape_;
  std::map<Message, Arrival> arrivals_;
  std::vector<Work> sends_;
  double waited_ms_ = 0;
};

}  // namespace cleave
