// Forward and backward of one micro-batch, unit by unit. The host walks the units, not autograd:
// each unit runs on a detached input, and backward is one autograd call per unit, so hooks run on
// the rank's main thread and recompute means keeping the input only.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "cleave/strategy.h"
#include "core/unit.h"

namespace cleave {

class Tape {
 public:
  /// All references outlive the tape. `observers` see every unit run, in the order given.
  Tape(const std::vector<std::unique_ptr<Unit>>& units, Ops& ops,
       const std::vector<UnitObserver*>& observers);

  /// Runs all units and keeps {input, output} of each under `micro_batch.index`.
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
    at::Tensor output;
  };

  const std::vector<std::unique_ptr<Unit>>& units_;
  Ops& ops_;
  const std::vector<UnitObserver*>& observers_;
  std::map<int, std::vector<Entry>> records_;  // by micro-batch index
};

}  // namespace cleave
