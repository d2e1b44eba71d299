#include "core/recompute.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace cleave {

namespace {

constexpr char kKey[] = "input";

struct Maker : torch::CustomClassHolder {
  explicit Maker(MakeAgain maker) : make_again(std::move(maker)) {}
  MakeAgain make_again;
};

}  // namespace

void OfferedOutput::offer(const at::Tensor& y, MakeAgain make_again) {
  withdraw();
  if (!y.requires_grad() || !y.is_contiguous()) return;
  offered_.emplace(Offered{y.storage().getWeakStorageImpl(), y.storage_offset(), y.numel(),
                           y._version(), std::move(make_again)});
}

MakeAgain OfferedOutput::take(const at::Tensor& x) {
  std::optional<Offered> y = std::exchange(offered_, std::nullopt);
  const bool is_same = y && x.storage().unsafeGetStorageImpl() == y->storage._unsafe_get_target() &&
                       x.storage_offset() == y->storage_offset && x.numel() == y->num_elements &&
                       x._version() == y->version && x.is_contiguous();
  if (!is_same) return {};
  return [make_again = std::move(y->make_again), shape = x.sizes().vec()] {
    return make_again().view(shape);
  };
}

void keep_input(torch::autograd::AutogradContext& context, const at::Tensor& x,
                MakeAgain make_again) {
  if (make_again)
    context.saved_data[kKey] =
        at::IValue::make_capsule(c10::make_intrusive<Maker>(std::move(make_again)));
  else
    context.save_for_backward({x});
}

at::Tensor take_input(torch::autograd::AutogradContext& context) {
  const auto found = context.saved_data.find(kKey);
  if (found == context.saved_data.end()) return context.get_saved_variables()[0];
  // autograd frees saved data with the whole graph only
  const auto maker = std::move(found->second).toCapsule();
  context.saved_data.erase(found);
  return static_cast<Maker&>(*maker).make_again();
}

}  // namespace cleave
