#include "core/activation_counter.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "core/cross_entropy.h"

namespace cleave {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

bool is_fused(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat;
}

// Of so many float32.
int64_t float_bytes(int64_t elements) {
  return elements * static_cast<int64_t>(sizeof(float));
}

int64_t bytes(const at::Tensor& x) {
  return static_cast<int64_t>(x.nbytes());
}

at::Tensor floats(at::IntArrayRef shape, const at::Tensor& like) {
  return at::empty(shape, like.options().dtype(at::kFloat));
}

at::Tensor with_last(const at::Tensor& x, int64_t extent) {
  auto shape = x.sizes().vec();
  shape.back() = extent;
  return at::empty(shape, x.options());
}

std::vector<int64_t> box_shape(const Parameter& parameter) {
  return parameter.value_placement.box.shape();
}

at::Tensor log_sums_of(const at::Tensor& y) {
  return floats({y.size(0), y.size(2), y.size(1)}, y);
}

// The rows and their scaled copy, before that is rounded.
int64_t norm_temporary_bytes(const at::Tensor& x) {
  return is_fused(x) ? 0 : float_bytes(2 * x.numel());
}

// Sums per 64 rows of the weight's gradient; or four float32 copies of the rows.
int64_t norm_backward_temporary_bytes(const at::Tensor& x) {
  return float_bytes(is_fused(x) ? x.numel() / 64 + x.size(-1) : 4 * x.numel());
}

// Halves of input and output in float32, then the joined halves before they are rounded.
int64_t rotate_temporary_bytes(const at::Tensor& x) {
  return is_fused(x) ? 0 : float_bytes(3 * x.numel());
}

// Gradients of a weight and its bias on their way into the float32 sum; float32 products go there
// directly.
int64_t linear_weight_temporary_bytes(const at::Tensor& x,
                                      const std::vector<Projection>& projections) {
  int64_t most = 0;
  for (const Projection& projection : projections) {
    const auto shape = box_shape(*projection.weight);  // (out, in)
    if (!is_fused(x)) most = std::max(most, x.element_size() * shape[0] * shape[1]);
    if (!is_fused(x) && projection.bias)
      most = std::max(most, float_bytes(x.numel() / x.size(-1) * shape[0]));
  }
  return most;
}

// Logits; and where the compute dtype is another one, the logits' gradient in it.
int64_t head_temporary_bytes(const at::Tensor& hidden, const Parameter& weight) {
  const auto shape = box_shape(weight);  // (V, C)
  const int64_t rows = std::min(hidden.numel() / hidden.size(-1),
                                cross_entropy_chunk_rows(std::max<int64_t>(1, shape[0])));
  const int64_t logits = float_bytes(rows * shape[0]);
  if (is_fused(hidden)) return logits;
  return logits + hidden.element_size() * shape[0] * rows;
}

// A product that is added to the float32 sum.
int64_t head_weight_temporary_bytes(const at::Tensor& hidden, const Parameter& weight) {
  const auto shape = box_shape(weight);  // (V, C)
  return is_fused(hidden) ? 0 : hidden.element_size() * shape[0] * shape[1];
}

}  // namespace

// Not autograd's saved variables: this ends with the operation's backward.
struct ActivationCounter::Kept : torch::CustomClassHolder {
  ActivationCounter& counter;
  Backward backward;
  std::vector<std::vector<int64_t>> input_shapes = {};

  Kept(ActivationCounter& owner, Backward given) : counter(owner), backward(std::move(given)) {
    for (at::Tensor& tensor : backward.keeps) tensor = tensor.detach();
  }
};

// Any operation: hands its outputs on in forward, makes a gradient for each input in backward.
struct ActivationCounter::OperationFunction : Function<OperationFunction> {
  using Input = std::optional<at::Tensor>;

  static variable_list forward(AutogradContext* context, const Input& a, const Input& b,
                               const Input& c, const c10::intrusive_ptr<Kept>& kept,
                               const variable_list& outputs) {
    for (const Input& input : {a, b, c})
      if (input) kept->input_shapes.push_back(input->sizes().vec());
    context->saved_data["kept"] = at::IValue::make_capsule(kept);
    return outputs;
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(
        std::move(context->saved_data["kept"]).toCapsule());
    context->saved_data.clear();
    const Backward& needs = kept->backward;
    variable_list made = dy;
    if (needs.make_again) made.push_back(needs.make_again());
    const at::Tensor x = needs.make_again      ? made.back()
                         : needs.keeps.empty() ? at::Tensor()
                                               : needs.keeps.front();
    variable_list gradients;
    for (const auto& shape : kept->input_shapes)
      gradients.push_back(at::empty(shape, dy[0].options()));
    made.insert(made.end(), gradients.begin(), gradients.end());
    const bool waits = needs.weight && needs.weight->deferred;
    kept->counter.count(made, needs.temporary_bytes + (waits ? 0 : needs.weight_temporary_bytes));
    if (waits) kept->counter.defer_weight_gradient(needs, dy, x);
    gradients.resize(5);  // one for each argument of forward
    return gradients;
  }
};

std::vector<at::Tensor> ActivationCounter::record(const std::vector<at::Tensor>& inputs,
                                                  const std::vector<at::Tensor>& outputs,
                                                  Backward backward) {
  count(inputs);
  count(outputs);
  const auto input = [&](size_t i) {
    return i < inputs.size() ? std::optional(inputs[i]) : std::nullopt;
  };
  return OperationFunction::apply(input(0), input(1), input(2),
                                  c10::make_intrusive<Kept>(*this, std::move(backward)), outputs);
}

// The tensors stay alive until the contribution is made.
void ActivationCounter::defer_weight_gradient(const Backward& backward,
                                              const std::vector<at::Tensor>& dy,
                                              const at::Tensor& x) {
  const std::vector<at::Tensor> waiting = backward.waits(dy, x);
  count(waiting);
  backward.weight->deferred->push_back(
      [this, waiting, bytes = backward.weight_temporary_bytes] { count(waiting, bytes); });
}

at::Tensor ActivationCounter::embedding(const at::Tensor& tokens, Parameter& weight,
                                        const at::Tensor& path) {
  auto shape = tokens.sizes().vec();
  shape.push_back(box_shape(weight)[1]);
  const at::Tensor y = at::empty(shape, tokens.options().dtype(weight.dtype));
  Backward backward;
  backward.weight = &weight;
  backward.weight_temporary_bytes = is_fused(y) ? 0 : float_bytes(y.numel());
  backward.waits = [](const variable_list& dy, const at::Tensor&) { return dy; };
  return region_out(record({path}, {y}, std::move(backward))[0]);
}

// Gathered or cut.
at::Tensor ActivationCounter::with_shape(const at::Tensor& x, const std::vector<int64_t>& shape) {
  if (shape_.ranks == 1) return x;
  return record({x}, {at::empty(shape, x.options())}, {})[0];
}

at::Tensor ActivationCounter::region_in(const at::Tensor& x) {
  return with_shape(x, {shape_.sequences, shape_.tokens, shape_.features});
}

at::Tensor ActivationCounter::region_out(const at::Tensor& x) {
  return with_shape(x, shape_.activation());
}

at::Tensor ActivationCounter::rms_norm(const at::Tensor& x, Parameter& weight, double) {
  const auto make = [this, x = x.detach()] {
    const at::Tensor y = at::empty_like(x);
    count({x, y}, norm_temporary_bytes(x));
    return y;
  };
  const at::Tensor scale = floats({x.numel() / x.size(-1)}, x);
  Backward backward{{x, scale}, norm_backward_temporary_bytes(x)};
  backward.weight = &weight;
  backward.waits = [](const variable_list&, const at::Tensor& input) {
    return variable_list{floats({input.size(-1)}, input)};
  };
  const at::Tensor y = record({x}, {make()}, std::move(backward))[0];
  count({scale});
  if (recompute_.norm) offered_.offer(y, make);
  return y;
}

std::vector<at::Tensor> ActivationCounter::linear(const at::Tensor& x,
                                                  const std::vector<Projection>& projections) {
  variable_list outputs;
  for (const Projection& projection : projections)
    outputs.push_back(with_last(x, box_shape(*projection.weight)[0]));
  Backward backward{{x}, 0, offered_.take(x)};
  backward.weight = projections[0].weight;
  backward.weight_temporary_bytes = linear_weight_temporary_bytes(x, projections);
  backward.waits = [](variable_list dy, const at::Tensor& input) {
    dy.push_back(input);
    return dy;
  };
  if (backward.make_again) backward.keeps.clear();
  return record({x}, outputs, std::move(backward));
}

at::Tensor ActivationCounter::rotate(const at::Tensor& x) {
  const at::Tensor y = at::empty(x.sizes(), x.options());
  count({y}, rotate_temporary_bytes(x));
  if (is_fused(x)) return y;  // part of attention's backward
  return record({x}, {y}, {{}, rotate_temporary_bytes(x)})[0];
}

// The output of attention where it is dropped: the first to ask makes it again, attention's
// backward is the last.
struct ActivationCounter::DroppedAttention {
  ActivationCounter& counter;
  std::vector<at::Tensor> inputs;  // rotated q and k, v
  at::Tensor y = {}, log_sums = {};

  at::Tensor get() {
    if (!y.defined()) {
      y = at::empty_like(inputs[0]);
      log_sums = log_sums_of(y);
      counter.count({y, log_sums});
    }
    return y;
  }
};

at::Tensor ActivationCounter::attention(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, const RotaryTable& rotary) {
  const at::Tensor rotated_q = rotate(q), rotated_k = rotate(k);
  const at::Tensor y = at::empty(rotated_q.sizes(), rotated_q.options()), log_sums = log_sums_of(y);
  count({rotary.cos, rotary.sin, log_sums});
  Backward backward;
  // gradients of the rotated q and k, beside those of q and k
  backward.temporary_bytes = is_fused(q) ? bytes(q) + bytes(k) : 0;
  if (recompute_.attention) {
    const std::shared_ptr<DroppedAttention> dropped(
        new DroppedAttention{*this, {rotated_q.detach(), rotated_k.detach(), v.detach()}});
    backward.make_again = [dropped] { return dropped->get(); };
  } else {
    backward.keeps = {rotated_q, rotated_k, v, y, log_sums};
  }
  const MakeAgain make_again = backward.make_again;
  const at::Tensor recorded = record({is_fused(q) ? q : rotated_q, is_fused(k) ? k : rotated_k, v},
                                     {y}, std::move(backward))[0];
  if (make_again) offered_.offer(recorded, make_again);
  return recorded;
}

at::Tensor ActivationCounter::swiglu(const at::Tensor& gate, const at::Tensor& up) {
  const auto make = [this, gate = gate.detach(), up = up.detach()] {
    const at::Tensor y = at::empty_like(gate);
    count({y});
    return y;
  };
  const int64_t temporary_bytes = is_fused(gate) ? 0 : bytes(gate);
  const at::Tensor y = record({gate, up}, {make()}, {{gate, up}, temporary_bytes})[0];
  if (recompute_.mlp) offered_.offer(y, make);
  return y;
}

at::Tensor ActivationCounter::cross_entropy(const at::Tensor& hidden, Parameter& weight,
                                            const at::Tensor&, const LossSink&) {
  Backward backward{{hidden}, head_temporary_bytes(hidden, weight)};
  backward.weight = &weight;
  backward.weight_temporary_bytes = head_weight_temporary_bytes(hidden, weight);
  backward.waits = [vocab_size = box_shape(weight)[0]](const variable_list&,
                                                       const at::Tensor& input) {
    return variable_list{input, with_last(input, vocab_size)};
  };
  return record({hidden}, {at::empty({}, hidden.options())}, std::move(backward))[0];
}

void ActivationCounter::before_unit(const UnitInfo& unit, int, Phase) {
  recompute_ = unit.recompute;
}

void ActivationCounter::after_unit(const UnitInfo&, int, Phase) {
  recompute_ = {};
  offered_.withdraw();
}

void ActivationCounter::count(const std::vector<at::Tensor>& made, int64_t temporary_bytes) {
  for (const at::Tensor& tensor : made) live_.see(tensor);
  recent_peak_bytes_ = std::max(recent_peak_bytes_, live_.now() + temporary_bytes);
}

}  // namespace cleave
