// The parameter table: one logical entry per trained tensor, whatever is split and however often
// the model uses it (tied weights are one entry).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/placement.h"

namespace cleave {

/// Units hold `Parameter&` handles and never tensors of their own, so a strategy can gather and
/// free `value` behind them.
struct Parameter {
  std::string name;            ///< Hugging Face's, e.g. "model.layers.0.mlp.up_proj.weight"
  std::vector<int64_t> shape;  ///< global
  at::ScalarType dtype;        ///< of `value`: what the units compute with
  int index;                   ///< position in the table
  /// Units that use it, ascending; a tied weight has two. Backward ends its use at the first one.
  std::vector<int> units;

  Placement value_placement;
  Placement gradient_placement;
  Placement state_placement;  ///< master weights and moments

  at::Tensor value;
  /// float32: what the optimizer updates and the host saves; `value` itself where that is float32.
  at::Tensor master;
  /// float32 also under bfloat16; allocated by the gradient reducer, else by the host. Ops add to
  /// it.
  at::Tensor gradient;
  /// The first contribution of a step overwrites `gradient` and clears this; nothing is zeroed.
  bool gradient_is_stale = true;

  int64_t num_elements() const {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    return n;
  }
  /// AdamW decays matrices only; decided by the global shape, so flattening can't change it.
  bool has_weight_decay() const { return shape.size() >= 2; }
};

/// A block that strategies wrap: the embedding, each decoder layer, final norm + head.
struct UnitInfo {
  std::string name;  ///< "embedding", "layers.0", ..., "head"
  int index;         ///< in forward order
  std::vector<Parameter*> parameters;
};

}  // namespace cleave
