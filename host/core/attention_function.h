// Attention with its backward: blocked for float32 on the CPU (attention.h), ATen's elsewhere.
#pragma once

#include "cleave/ops.h"
#include "core/recompute.h"

namespace cleave {

struct AttentionResult {
  at::Tensor y;          ///< (B, T, H, D)
  MakeAgain make_again;  ///< of y, empty where y is kept
};

/// As Ops::attention. Keeps the rotated q and k, v and, unless `drops_output`, y. What makes y
/// again runs once, whether y is asked for before attention's backward or only by it.
AttentionResult attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const RotaryTable& rotary, bool drops_output);

}  // namespace cleave
