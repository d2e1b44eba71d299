// Forward and backward of one micro-batch, unit by unit. The host walks the units, not autograd:
// each unit runs on a detached input, and backward is one autograd call per unit, so hooks run on
// the rank's main thread and recompute means keeping the input only.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "cleave/strategy.h"
#include "core/unit.h"

namespace cleave {

/// What is called around each run of a unit.
struct UnitHooks {
  std::vector<UnitObserver*> observers = {};  ///< in the order given
  ParameterSharder* sharder = nullptr;
  GradientReducer* reducer = nullptr;
};

class Tape {
 public:
  /// All references outlive the tape.
  Tape(const std::vector<std::unique_ptr<Unit>>& units, Ops& ops, UnitHooks hooks);

  /// The visits that forward() and backward() will make, in order; outlives the step. Without it
  /// the sharder is told of no upcoming ones.
  void begin_step(std::span<const Visit> visits) { left_ = visits; }

  /// Runs all units and keeps {input, output} of each under `micro_batch.index`; of one that
  /// recomputes as a whole the input alone (not of the last unit: its backward comes next).
  void forward(const MicroBatch& micro_batch);
  /// Walks the record of `micro_batch` back and drops it; gradients are added to the parameters'
  /// buffers. `after_unit(unit index)` runs when that unit's gradients are complete for this
  /// micro-batch.
  void backward(const MicroBatch& micro_batch, const std::function<void(int)>& after_unit);

  /// Micro-batches whose activations are alive.
  size_t num_records() const { return records_.size(); }

 private:
  struct Entry {
    at::Tensor input;
    at::Tensor output;  // undefined: to be computed again
  };

  at::Tensor run(Unit& unit, const at::Tensor& input, const MicroBatch& micro_batch, Phase phase);
  std::span<const Visit> advance(const Visit& visit);

  const std::vector<std::unique_ptr<Unit>>& units_;
  Ops& ops_;
  UnitHooks hooks_;
  std::span<const Visit> left_;
  std::map<int, std::vector<Entry>> records_;  // by micro-batch index
};

}  // namespace cleave
