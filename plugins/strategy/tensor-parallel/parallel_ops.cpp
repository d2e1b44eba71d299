#include "parallel_ops.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "cleave/weight_gradient.h"
#include "vocabulary_loss.h"

namespace cleave {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Weight gradients that nothing waits for.
void run(DeferredGradients* contributions) {
  if (!contributions) return;
  for (const auto& contribution : std::exchange(*contributions, {})) contribution();
}

// What a border does to an activation: (B, T, C), or (1, B T/N, C) where it is cut. A term of a sum
// has no other reader than the border: it becomes the sum in place.
at::Tensor sum(const at::Tensor& x, Comm& comm, DeferredGradients* meanwhile = nullptr) {
  at::Tensor y = x.contiguous();
  Work work = comm.all_reduce(y);
  run(meanwhile);
  work.wait();
  return y.view_as(y);
}

at::Tensor sum_and_cut(const at::Tensor& x, Comm& comm, DeferredGradients* meanwhile = nullptr) {
  const int64_t rows = x.size(0) * x.size(1) / comm.size();
  at::Tensor y = at::empty({1, rows, x.size(2)}, x.options());
  Work work = comm.reduce_scatter(y, x.contiguous());
  run(meanwhile);
  work.wait();
  return y;
}

at::Tensor gather(const at::Tensor& x, int64_t sequences, Comm& comm) {
  const int64_t tokens = x.size(1) * comm.size() / sequences;
  at::Tensor y = at::empty({sequences, tokens, x.size(2)}, x.options());
  comm.all_gather(y, x.contiguous()).wait();
  return y;
}

DeferredGradients* waiting_of(AutogradContext* context) {
  return reinterpret_cast<DeferredGradients*>(context->saved_data["waiting"].toInt());
}
Comm& comm_of(AutogradContext* context) {
  return *reinterpret_cast<Comm*>(context->saved_data["comm"].toInt());
}
void keep(AutogradContext* context, Comm* comm) {
  context->saved_data["comm"] = reinterpret_cast<int64_t>(comm);
}

// Megatron-LM's f: each rank's gradient of the input is a term of the sum.
struct EnterFunction : Function<EnterFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, Comm* comm,
                            DeferredGradients* waiting) {
    keep(context, comm);
    context->saved_data["waiting"] = reinterpret_cast<int64_t>(waiting);
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    return {sum(dy[0], comm_of(context), waiting_of(context)), at::Tensor(), at::Tensor()};
  }
};

// Megatron-LM's g: each rank's output is a term of the sum.
struct LeaveFunction : Function<LeaveFunction> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& x, Comm* comm) {
    return sum(x, *comm);
  }
  static variable_list backward(AutogradContext*, variable_list dy) {
    return {dy[0], at::Tensor()};
  }
};

struct GatherFunction : Function<GatherFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, int64_t sequences,
                            Comm* comm, DeferredGradients* waiting) {
    keep(context, comm);
    context->saved_data["waiting"] = reinterpret_cast<int64_t>(waiting);
    return gather(x, sequences, *comm);
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    return {sum_and_cut(dy[0], comm_of(context), waiting_of(context)), at::Tensor(), at::Tensor(),
            at::Tensor()};
  }
};

struct SumAndCutFunction : Function<SumAndCutFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, Comm* comm) {
    keep(context, comm);
    context->saved_data["sequences"] = x.size(0);
    return sum_and_cut(x, *comm);
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const int64_t sequences = context->saved_data["sequences"].toInt();
    return {gather(dy[0], sequences, comm_of(context)), at::Tensor()};
  }
};

// Rows of the vocabulary that this rank does not hold give zeros.
struct EmbeddingFunction : Function<EmbeddingFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor&, const at::Tensor& tokens,
                            Parameter* weight) {
    const int64_t first = weight->value_placement.box.begin[0];
    const at::Tensor row = tokens - first;
    const at::Tensor is_elsewhere = row.lt(0).logical_or_(row.ge(weight->value.size(0)));
    context->saved_data["weight"] = reinterpret_cast<int64_t>(weight);
    context->save_for_backward({row, is_elsewhere});
    if (weight->value.size(0) == 0)
      return at::zeros({tokens.size(0), tokens.size(1), weight->shape[1]}, weight->value.options());
    at::Tensor y = at::embedding(weight->value, row.masked_fill(is_elsewhere, 0));
    return y.masked_fill_(is_elsewhere.unsqueeze(-1), 0);
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const auto saved = context->get_saved_variables();
    auto& weight = *reinterpret_cast<Parameter*>(context->saved_data["weight"].toInt());
    const at::Tensor here = saved[1].logical_not().flatten().nonzero().flatten();
    add_rows(weight, saved[0].flatten().index_select(0, here),
             dy[0].reshape({-1, dy[0].size(-1)}).index_select(0, here));
    return {at::zeros({0}, dy[0].options()), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

// The head's are left out: they would keep the logits' gradients of all chunks.
ParallelOps::ParallelOps(Ops& next, Comm& comm, const MicroBatchShape& shape,
                         bool sequence_parallel, const std::vector<UnitInfo>& units)
    : next_(next), comm_(comm), shape_(shape), sequence_parallel_(sequence_parallel) {
  for (const UnitInfo& unit : units)
    for (Parameter* parameter : unit.parameters)
      if (unit.kind == UnitKind::layer && parameter->split.dim == 0)
        overlapped_.push_back(parameter);
  for (Parameter* parameter : overlapped_) parameter->deferred = &waiting_;
}

ParallelOps::~ParallelOps() {
  for (Parameter* parameter : overlapped_) parameter->deferred = nullptr;
}

at::Tensor ParallelOps::embedding(const at::Tensor& tokens, Parameter& weight,
                                  const at::Tensor& path) {
  return region_out(EmbeddingFunction::apply(path, tokens, &weight));
}

// A bias beside cut inputs is whole, and its product's sum is still to be formed: the first rank
// alone adds it.
std::vector<at::Tensor> ParallelOps::linear(const at::Tensor& x,
                                            const std::vector<Projection>& projections) {
  if (projections[0].weight->split.dim == 0 || comm_.rank() == 0)
    return next_.linear(x, projections);
  auto& without = without_bias_[&projections];
  if (without.empty())
    for (const Projection& projection : projections)
      without.push_back({projection.weight, nullptr});
  return next_.linear(x, without);
}

at::Tensor ParallelOps::cross_entropy(const at::Tensor& hidden, Parameter& weight,
                                      const at::Tensor& targets, const LossSink& sink) {
  return vocabulary_loss(hidden, weight, targets, sink, comm_);
}

at::Tensor ParallelOps::region_in(const at::Tensor& x) {
  return sequence_parallel_ ? GatherFunction::apply(x, shape_.sequences, &comm_, &waiting_)
                            : EnterFunction::apply(x, &comm_, &waiting_);
}

at::Tensor ParallelOps::region_out(const at::Tensor& x) {
  return sequence_parallel_ ? SumAndCutFunction::apply(x, &comm_) : LeaveFunction::apply(x, &comm_);
}

}  // namespace cleave
