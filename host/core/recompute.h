// Recompute of single operations: an operation's output is dropped after its use and made again
// when the backward of the linear that used it asks for it.
//
// The operation offers its output together with a function that makes it again from what the
// operation keeps anyway; the next linear takes the offer instead of keeping its input. Operations
// in between are no obstacle: where they hand on another tensor, linear keeps that.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

namespace torch::autograd {
struct AutogradContext;
}

namespace cleave {

/// Makes a tensor again with the same bits; called in backward, at most once. Empty: it is kept.
using MakeAgain = std::function<at::Tensor()>;

/// The output that the latest such operation would drop. One per TorchOps.
class OfferedOutput {
 public:
  /// Nothing happens without a backward to come, or where `y` is not contiguous.
  void offer(const at::Tensor& y, MakeAgain make_again);
  /// What makes `x` again, if it is the offered output or a view of all of it and nobody has
  /// written to it; else empty. Ends the offer.
  MakeAgain take(const at::Tensor& x);
  void withdraw() { offered_.reset(); }

 private:
  struct Offered {
    // weak: doesn't hold the bytes, and its address is not used again meanwhile
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    int64_t storage_offset;
    int64_t num_elements;
    int64_t version;
    MakeAgain make_again;
  };
  std::optional<Offered> offered_;
};

/// For an autograd function of one input, in forward: keeps `x`, or what makes it again.
void keep_input(torch::autograd::AutogradContext& context, const at::Tensor& x,
                MakeAgain make_again);
/// In backward, once: the input; what made it is dropped.
at::Tensor take_input(torch::autograd::AutogradContext& context);

}  // namespace cleave
