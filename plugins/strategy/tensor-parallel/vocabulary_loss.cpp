#include "vocabulary_loss.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

#include "cleave/weight_gradient.h"

namespace cleave {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr int64_t kChunkBytes = 64 << 20;
constexpr int64_t kMinChunkRows = 128;

// n tokens against this rank's rows: adds their loss to the sink and returns scale x (softmax -
// one_hot) of the rows (n, V/N), float32.
at::Tensor chunk_loss(const at::Tensor& x, const Parameter& weight, const at::Tensor& targets,
                      const LossSink& sink, Comm& comm) {
  at::Tensor logits = at::mm(x, weight.value.t()).to(at::kFloat);
  const int64_t n = x.size(0), rows = logits.size(1);
  at::Tensor highest =
      rows > 0 ? std::get<0>(logits.max(1, /*keepdim=*/true))
               : at::full({n, 1}, -std::numeric_limits<float>::infinity(), logits.options());
  comm.all_reduce(highest, ReduceOp::max).wait();
  logits.sub_(highest);

  const at::Tensor row = targets - weight.value_placement.box.begin[0];
  const at::Tensor here =
      row.ge(0).logical_and_(row.lt(rows)).nonzero().flatten();  // tokens whose target is here
  at::Tensor sums = at::zeros({2, n}, logits.options());  // of exp(logit), and the target's logit
  sums[1].index_put_({here}, logits.index({here, row.index_select(0, here)}));
  logits.exp_();
  at::Tensor total = sums[0];
  at::sum_out(total, logits, /*dim=*/{1});
  comm.all_reduce(sums).wait();

  const at::Tensor counts = targets.ne(sink.ignore_token);
  sink.sum.add_(sums[0].log().sub_(sums[1]).masked_fill_(counts.logical_not(), 0).sum(at::kDouble));
  logits.div_(sums[0].unsqueeze(1));
  logits.index_put_({here, row.index_select(0, here)}, at::full({}, -1.0, logits.options()),
                    /*accumulate=*/true);
  return logits.mul_((counts.to(at::kDouble) * sink.gradient_scale).to(at::kFloat).unsqueeze(1));
}

template <typename Use>
void for_each_chunk(const at::Tensor& hidden, const Parameter& weight, const Use& use) {
  const int64_t n = hidden.size(0);
  const int64_t step =
      std::max(kMinChunkRows, kChunkBytes / (4 * std::max<int64_t>(1, weight.value.size(0))));
  for (int64_t begin = 0; begin < n; begin += step) use(begin, std::min(step, n - begin));
}

struct LossFunction : Function<LossFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, Parameter* weight,
                            const at::Tensor& targets, const LossSink& sink, Comm* comm) {
    auto& data = context->saved_data;
    data["weight"] = reinterpret_cast<int64_t>(weight);
    data["comm"] = reinterpret_cast<int64_t>(comm);
    data["ignore_token"] = sink.ignore_token;
    data["sum"] = sink.sum;  // changes between micro-batches: not a saved variable
    data["gradient_scale"] = sink.gradient_scale;
    context->save_for_backward({hidden, targets});
    return at::zeros({}, hidden.options());
  }
  static variable_list backward(AutogradContext* context, variable_list) {
    auto& data = context->saved_data;
    const auto saved = context->get_saved_variables();
    const at::Tensor hidden = saved[0].reshape({-1, saved[0].size(-1)});
    const at::Tensor targets = saved[1].flatten();
    auto& weight = *reinterpret_cast<Parameter*>(data["weight"].toInt());
    auto& comm = *reinterpret_cast<Comm*>(data["comm"].toInt());
    const LossSink sink{data["sum"].toTensor(), data["gradient_scale"].toTensor(),
                        data["ignore_token"].toInt()};
    at::Tensor dhidden = at::empty_like(hidden);
    for_each_chunk(hidden, weight, [&](int64_t begin, int64_t count) {
      const at::Tensor x = hidden.narrow(0, begin, count);
      const at::Tensor dlogits =
          chunk_loss(x, weight, targets.narrow(0, begin, count), sink, comm).to(x.scalar_type());
      at::Tensor out = dhidden.narrow(0, begin, count);
      at::mm_out(out, dlogits, weight.value);
      add_product(weight, dlogits, x);
    });
    return {dhidden.view(saved[0].sizes()), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor vocabulary_loss(const at::Tensor& hidden, Parameter& weight, const at::Tensor& targets,
                           const LossSink& sink, Comm& comm) {
  if (at::GradMode::is_enabled()) return LossFunction::apply(hidden, &weight, targets, sink, &comm);
  const at::Tensor rows = hidden.reshape({-1, hidden.size(-1)});
  for_each_chunk(rows, weight, [&](int64_t begin, int64_t count) {
    chunk_loss(rows.narrow(0, begin, count), weight, targets.flatten().narrow(0, begin, count),
               sink, comm);
  });
  return at::zeros({}, hidden.options());
}

}  // namespace cleave
