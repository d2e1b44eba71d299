#include "core/attention_function.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/attention.h"
#include "core/fused_math.h"

namespace cleave {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr char kAgain[] = "again";

// The context's reference; autograd would hold it until the whole graph ends.
template <typename T>
c10::intrusive_ptr<T> take_again(AutogradContext* context) {
  auto& data = context->saved_data;
  auto again = c10::static_intrusive_pointer_cast<T>(std::move(data[kAgain]).toCapsule());
  data.erase(kAgain);
  return again;
}

// Rotation and attention in one: what is kept is the rotated q and k, v, and the output.
struct BlockedFunction : Function<BlockedFunction> {
  // Shared with the linear that uses the output: the first to ask computes it, attention's backward
  // is the last.
  struct Again : torch::CustomClassHolder {
    AttentionInput input;
    AttentionOutput output;

    const AttentionOutput& get() {
      if (!output.y.defined()) output = attention_forward(input);
      return output;
    }
  };

  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const RotaryTable& rotary,
                            const c10::intrusive_ptr<Again>& again) {
    const AttentionInput input{rotate(q, rotary, false), rotate(k, rotary, false), v.contiguous()};
    const AttentionOutput output = attention_forward(input);
    if (again) {
      again->input = input;
      context->saved_data[kAgain] = at::IValue::make_capsule(again);
      context->save_for_backward({rotary.cos, rotary.sin});
    } else {
      context->saved_data["log_sums"] = output.log_sums;
      context->save_for_backward({rotary.cos, rotary.sin, input.q, input.k, input.v, output.y});
    }
    return output.y;
  }

  static variable_list backward(AutogradContext* context, variable_list dy) {
    const auto saved = context->get_saved_variables();
    const RotaryTable rotary{saved[0], saved[1]};
    AttentionInput input;
    AttentionOutput output;
    if (context->saved_data.count(kAgain)) {
      const auto again = take_again<Again>(context);
      input = again->input;
      output = again->get();
    } else {
      input = {saved[2], saved[3], saved[4]};
      output = {saved[5], context->saved_data["log_sums"].toTensor()};
    }
    const AttentionInput gradient = attention_backward(input, output, dy[0].contiguous());
    return {rotate(gradient.q, rotary, true), rotate(gradient.k, rotary, true), gradient.v,
            at::Tensor(), at::Tensor()};
  }
};

struct RotaryFunction : Function<RotaryFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cos,
                            const at::Tensor& sin) {
    context->save_for_backward({cos, sin});
    return rotate(x, {cos, sin}, false);
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const auto saved = context->get_saved_variables();
    return {rotate(dy[0], {saved[0], saved[1]}, true), at::Tensor(), at::Tensor()};
  }
};

// q (B, T, H, D), k and v (B, T, K, D) -> (B, T, H, D), contiguous.
at::Tensor aten_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                          /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                          /*is_causal=*/true, /*scale=*/std::nullopt,
                                          /*enable_gqa=*/q.size(2) != k.size(2))
      .transpose(1, 2)
      .contiguous();
}

// A graph of its own. ATen chooses kernels by whether gradients are wanted, so a forward whose
// backward runs the operation again must record it too, to get the same bits.
struct RecordedAttention {
  variable_list input;  // q, k, v: leaves
  at::Tensor y;

  RecordedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)
      : input{leaf(q), leaf(k), leaf(v)} {
    const c10::AutoGradMode record(true);
    y = aten_attention(input[0], input[1], input[2]);
  }
  static at::Tensor leaf(const at::Tensor& x) { return x.detach().requires_grad_(true); }
};

// ATen's attention on rotated q and k, without its output.
struct AtenFunction : Function<AtenFunction> {
  struct Again : torch::CustomClassHolder {
    at::Tensor q, k, v;
    std::optional<RecordedAttention> recorded;

    const RecordedAttention& get() {
      if (!recorded) recorded.emplace(q, k, v);
      return *recorded;
    }
  };

  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const c10::intrusive_ptr<Again>& again) {
    again->q = q.detach();
    again->k = k.detach();
    again->v = v.detach();
    context->saved_data[kAgain] = at::IValue::make_capsule(again);
    return RecordedAttention(q, k, v).y.detach();
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const auto again = take_again<Again>(context);
    const RecordedAttention& recorded = again->get();
    variable_list gradients = torch::autograd::grad({recorded.y}, recorded.input, {dy[0]});
    gradients.emplace_back();
    return gradients;
  }
};

}  // namespace

AttentionResult attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const RotaryTable& rotary, bool drops_output) {
  if (q.is_cpu() && q.scalar_type() == at::kFloat) {
    if (!drops_output) return {BlockedFunction::apply(q, k, v, rotary, nullptr), {}};
    const auto again = c10::make_intrusive<BlockedFunction::Again>();
    return {BlockedFunction::apply(q, k, v, rotary, again), [again] { return again->get().y; }};
  }
  const at::Tensor rotated_q = RotaryFunction::apply(q, rotary.cos, rotary.sin);
  const at::Tensor rotated_k = RotaryFunction::apply(k, rotary.cos, rotary.sin);
  if (!at::GradMode::is_enabled())
    return {RecordedAttention(rotated_q, rotated_k, v).y.detach(), {}};
  if (!drops_output) return {aten_attention(rotated_q, rotated_k, v), {}};
  const auto again = c10::make_intrusive<AtenFunction::Again>();
  return {AtenFunction::apply(rotated_q, rotated_k, v, again),
          [again] { return again->get().y.detach(); }};
}

}  // namespace cleave
