#include "cleave/weight_gradient.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "cleave/error.h"

namespace cleave {

namespace {

// Whether the contribution waits; then it runs later, as if made then.
bool defer(const Parameter& parameter, std::function<void()> contribution) {
  if (!parameter.deferred) return false;
  parameter.deferred->push_back(std::move(contribution));
  return true;
}

// Whether the next contribution overwrites; it counts as made.
bool take_stale(Parameter& parameter) {
  CLEAVE_CHECK(parameter.gradient.defined(), parameter.name, " has no gradient buffer");
  return std::exchange(parameter.gradient_is_stale, false);
}

constexpr int64_t kBlockElements = 1 << 16;

// On the CPU ATen converts all of a term of another dtype before it adds it: a float32 copy of a
// weight. A block at a time is enough.
void add_term(const at::Tensor& sum, const at::Tensor& term) {
  if (!sum.is_cpu() || term.scalar_type() == sum.scalar_type()) {
    sum.add_(term);
    return;
  }
  const at::Tensor to = sum.view(-1), from = term.reshape(-1);
  for (int64_t begin = 0; begin < to.numel(); begin += kBlockElements) {
    const int64_t count = std::min(kBlockElements, to.numel() - begin);
    to.narrow(0, begin, count).add_(from.narrow(0, begin, count));
  }
}

void add_now(Parameter& parameter, const at::Tensor& contribution) {
  if (take_stale(parameter))
    parameter.gradient.copy_(contribution);
  else
    add_term(parameter.gradient, contribution);
}

void add_product_now(Parameter& weight, const at::Tensor& dy, const at::Tensor& x) {
  if (dy.scalar_type() != at::kFloat)
    add_now(weight, at::mm(dy.t(), x));
  else if (take_stale(weight))
    at::mm_out(weight.gradient, dy.t(), x);
  else
    weight.gradient.addmm_(dy.t(), x);
}

void add_rows_now(Parameter& weight, const at::Tensor& tokens, const at::Tensor& dy) {
  settle(weight);
  // accumulate = true is deterministic on both devices, unlike index_add_ on CUDA
  weight.gradient.index_put_({tokens}, dy.to(at::kFloat), /*accumulate=*/true);
}

}  // namespace

void add_product(Parameter& weight, const at::Tensor& dy, const at::Tensor& x) {
  if (!defer(weight, [&weight, dy, x] { add_product_now(weight, dy, x); }))
    add_product_now(weight, dy, x);
}

void add(Parameter& parameter, const at::Tensor& contribution) {
  if (!defer(parameter, [&parameter, contribution] { add_now(parameter, contribution); }))
    add_now(parameter, contribution);
}

void add_rows(Parameter& weight, const at::Tensor& tokens, const at::Tensor& dy) {
  if (!defer(weight, [&weight, tokens, dy] { add_rows_now(weight, tokens, dy); }))
    add_rows_now(weight, tokens, dy);
}

void begin_use(Parameter& parameter) {
  ++parameter.open_uses;
}

void end_use(Parameter& parameter) {
  if (defer(parameter, [&parameter] { end_use(parameter); })) return;
  CLEAVE_CHECK(parameter.open_uses > 0, parameter.name, ": a use ends that did not begin");
  if (--parameter.open_uses == 0 && parameter.listener) parameter.listener->complete(parameter);
}

void settle(Parameter& parameter) {
  if (take_stale(parameter)) parameter.gradient.zero_();
}

}  // namespace cleave
