// Forward and backward of one micro-batch through successive units. The host walks the units, not
// autograd: each unit runs on a detached input, and backward is one autograd call per unit, so
// hooks run on the rank's main thread and recompute means keeping the input only.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cleave/strategy.h"
#include "core/unit.h"

namespace cleave {

/// What is called around each run of a unit.
struct UnitHooks {
  std::vector<UnitObserver*> observers = {};  ///< in the order given
  ParameterSharder* sharder = nullptr;
  /// Before a backward that adds to the gradients of the unit's parameters; may be empty.
  std::function<void(const UnitInfo&)> before_gradients = {};
};

using Units = std::span<const std::unique_ptr<Unit>>;

class Tape {
 public:
  /// `ops` outlives the tape.
  Tape(Ops& ops, UnitHooks hooks) : ops_(ops), hooks_(std::move(hooks)) {}

  /// The visits that forward() and backward() will make, in order; outlives the step. Without it
  /// the sharder is told of no upcoming ones.
  void begin_step(std::span<const Visit> visits) { left_ = visits; }

  /// Runs `units` on `input` (undefined: they begin with the embedding) and keeps {input, output}
  /// of each; of one that recomputes as a whole the input alone (not of the head: its backward
  /// comes next). Returns the last one's output.
  at::Tensor forward(Units units, const MicroBatch& micro_batch, const at::Tensor& input = {});

  /// Walks them back from the gradient of the output (undefined: they end with the head, whose
  /// output is a scalar) and drops what was kept; gradients are added to the parameters' buffers.
  /// `after_unit(unit index)` runs when that unit's gradients are complete for this micro-batch.
  /// Returns the gradient of the input.
  at::Tensor backward(Units units, const MicroBatch& micro_batch,
                      const std::function<void(int)>& after_unit, const at::Tensor& gradient = {});

  /// The same in halves: additions to the parameters' gradients wait until the second.
  at::Tensor backward_input(Units units, const MicroBatch& micro_batch,
                            const at::Tensor& gradient = {});
  void backward_weight(Units units, const MicroBatch& micro_batch,
                       const std::function<void(int)>& after_unit);

  /// Runs of units whose activations are alive.
  size_t num_records() const { return records_.size(); }

 private:
  struct Entry {
    at::Tensor input;
    at::Tensor output;  // undefined: to be computed again
  };
  using Key = std::pair<int, int>;  // unit index, micro-batch

  at::Tensor run(Unit& unit, const at::Tensor& input, const MicroBatch& micro_batch, Phase phase);
  at::Tensor run_backward(Unit& unit, const MicroBatch& micro_batch, const at::Tensor& gradient);
  std::span<const Visit> advance(const Visit& visit);

  Ops& ops_;
  UnitHooks hooks_;
  std::span<const Visit> left_;
  std::map<Key, Entry> records_;
  std::map<Key, DeferredGradients> deferred_;
};

}  // namespace cleave
