// The parameter table: one logical entry per trained tensor, whatever is split and however often
// the model uses it (tied weights are one entry).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cleave/placement.h"

namespace cleave {

/// How a matrix and what belongs to it may be cut over ranks that compute one product together
/// (Megatron-LM, Shoeybi et al. 2019, arXiv:1909.08053).
struct MatrixSplit {
  int dim = -1;                ///< 0: outputs, in rows; 1: inputs, in columns; -1: not at all
  int64_t block = 1;           ///< rows or columns that stay together: those of a head
  bool may_be_uneven = false;  ///< a vocabulary
  /// Fewer blocks than ranks: several ranks may hold the same one and take their gradients for terms
  /// of a sum (keys and values, which serve several queries).
  bool may_be_shared = false;
};

/// Contributions to gradients, in the order in which they were made.
using DeferredGradients = std::vector<std::function<void()>>;

struct Parameter;

/// Of the host: hears that a gradient is complete before the unit's backward is (end_use in
/// weight_gradient.h).
class GradientListener {
 public:
  virtual void complete(Parameter& parameter) = 0;

 protected:
  ~GradientListener() = default;
};

/// Units hold `Parameter&` handles and never tensors of their own, so a strategy can gather and
/// free `value` behind them.
struct Parameter {
  std::string name;            ///< Hugging Face's, e.g. "model.layers.0.mlp.up_proj.weight"
  std::vector<int64_t> shape;  ///< global
  at::ScalarType dtype;        ///< of `value`: what the units compute with
  int index;                   ///< position in the table
  /// Units of this rank that use it, ascending; a tied weight may have two. Backward ends its use
  /// at the first one.
  std::vector<int> units;
  bool is_tied = false;  ///< two units of the model use it, here or on two pipeline ranks

  MatrixSplit split;

  Placement value_placement;
  Placement gradient_placement;
  Placement state_placement;  ///< master weights and moments

  /// What units compute with: the box of value_placement. Undefined while a strategy has freed it.
  at::Tensor value;
  /// float32, this rank's part by state_placement: what the optimizer updates and the host saves.
  /// Shares memory with `value` where that is float32 and kept.
  at::Tensor master;
  /// What ops add to: float32 also under bfloat16, shaped as `value`. From the gradient reducer,
  /// else from the host; defined while a unit that uses the parameter runs backward.
  at::Tensor gradient;
  /// float32, this rank's part by gradient_placement (as many elements as `master`): the sum over
  /// ranks once gradients are finished. `gradient` itself where that is kept whole.
  at::Tensor reduced_gradient;
  /// The next contribution overwrites `gradient` and clears this; nothing is zeroed. Set by the
  /// host at the start of a step, and by a reducer that has taken a micro-batch's gradient.
  bool gradient_is_stale = true;
  /// Where contributions to `gradient` wait while set (weight_gradient.h); who sets it runs them.
  DeferredGradients* deferred = nullptr;
  /// Operations that have yet to add to `gradient` (weight_gradient.h).
  int64_t open_uses = 0;
  /// Set by the host while a unit's backward may complete the gradient.
  GradientListener* listener = nullptr;

  int64_t num_elements() const {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    return n;
  }
  /// AdamW decays matrices only; decided by the global shape, so flattening can't change it.
  bool has_weight_decay() const { return shape.size() >= 2; }
};

/// What a unit's backward computes again instead of having it kept. Matrix products are kept unless
/// the whole unit runs again.
struct Recompute {
  bool unit = false;       ///< only the unit's input is kept (Chen et al. 2016, arXiv:1604.06174)
  bool norm = false;       ///< outputs of the norms
  bool attention = false;  ///< output of attention (Korthikanti et al. 2022, arXiv:2205.05198)
  bool mlp = false;        ///< output of the activation between the MLP's products
};

enum class UnitKind { embedding, layer, head };

/// A block that strategies wrap: the embedding, each decoder layer, final norm + head.
struct UnitInfo {
  std::string name;  ///< "embedding", "layers.0", ..., "head"
  int index;         ///< in forward order
  std::vector<Parameter*> parameters;
  UnitKind kind = UnitKind::layer;
  int chunk = 0;             ///< part of the network; a Partitioner writes it (schedule.h)
  Recompute recompute = {};  ///< a Partitioner writes it
};

/// What a run of a unit computes.
enum class Phase {
  forward,    ///< its output
  recompute,  ///< its output again, before backward
  backward,   ///< its gradients: input's and weights', or the input's alone where these follow
  weight      ///< its weights' gradients, apart from the input's (zero-bubble schedules)
};

/// One run of a unit within a step.
struct Visit {
  const UnitInfo* unit;
  int micro_batch;
  Phase phase;  ///< forward or backward
};

/// The parameters in the order in which their gradients become ready: by the unit where backward
/// uses them last, and inside it from the unit's end.
std::vector<Parameter*> backward_order(const std::vector<UnitInfo>& units);

}  // namespace cleave
