// Tensor parallelism (Shoeybi et al. 2019, arXiv:1909.08053): pairs of matrices are cut, the first
// by outputs, the second by inputs, so that a rank computes from a whole activation to a term of
// the next: attention by heads, the MLP by its inner features, embedding and head by the
// vocabulary.
//
// N ranks on the axis, B T tokens of C features a micro-batch, L layers, G micro-batches, v bytes
// an activation (4 float32, 2 bfloat16). Bytes kept per rank: matrices 1/N of their states (key and
// value heads fewer than ranks: one head
//   each), norms whole; activations inside the regions 1/N, between them whole, or 1/N with
//   sequence_parallel (Korthikanti et al. 2022, arXiv:2205.05198).
// Bytes sent per rank and step, in units of (N-1)/N G B T C v:
//   2 (4 L + 2)   all-reduces: 2 forward and 2 backward a layer, 1 forward after the embedding, 1
//                 backward before the head; 2 more a layer that recomputes. sequence_parallel: as
//                 many pairs of all-gather and reduce-scatter, the same bytes
//   and per token of the loss three float32 all-reduced.
// In backward the exchange of a region's input gradients is hidden behind the region's weight
// gradients of the products that begin it.
#include <ATen/ATen.h>

#include "cleave/error.h"
#include "parallel_ops.h"
#include "partition.h"

namespace cleave {
namespace {

class TensorParallel final : public Strategy, public Partitioner, public OpsRewriter {
 public:
  explicit TensorParallel(const cleave_options* options)
      : sequence_parallel_(Options(options).flag("sequence_parallel")) {}

  void partition(Plan& plan) override {
    ranks_ = plan.mesh.size(kAxis);
    if (ranks_ == 1) return;
    const int64_t tokens = plan.shape.sequences * plan.shape.tokens;
    if (sequence_parallel_ && tokens % ranks_ != 0)
      throw ConfigError(message(
          "sequence_parallel cuts ", tokens, " tokens (train.micro_batch_size ",
          plan.shape.sequences, " x data.sequence_length ", plan.shape.tokens, ") over ", ranks_,
          " ranks, which does not divide; make one of ", "the two a multiple of ", ranks_));
    if (sequence_parallel_) plan.activation_ranks = ranks_;
    partition_matrices(plan);
    for (Parameter* parameter : plan.parameters)
      if (parameter->split.dim < 0 && is_sum_of_terms(*parameter))
        parameter->gradient_placement.axes[kAxis] = AxisKind::partial;
  }

  void plan(Plan& plan) override {
    plan.claimed_axes = {kAxis};
    plan.offers = {"operations.split"};
    if (ranks_ == 1) return;
    shape_ = plan.shape;
    const double share = (ranks_ - 1.0) / ranks_;
    const MicroBatchShape& shape = plan.shape;
    const double tokens = static_cast<double>(shape.sequences * shape.tokens);
    const double activation =
        share * tokens * shape.features * c10::elementSize(plan.parameters[0]->dtype);
    double regions = 0, losses = 0;
    for (const Visit& visit : plan.visits) {
      const bool is_forward = visit.phase == Phase::forward;
      if (visit.unit->kind == UnitKind::embedding) regions += is_forward;
      if (visit.unit->kind == UnitKind::head) regions += !is_forward;
      if (visit.unit->kind == UnitKind::head) losses += !is_forward;
      if (visit.unit->kind == UnitKind::layer) regions += 2;
      if (visit.unit->recompute.unit) regions += is_forward ? 0 : 2;
    }
    plan.communication = {
        {kAxis, CLEAVE_ALL_REDUCE, at::kFloat, losses * 2 * share * tokens * 3 * sizeof(float)}};
    const at::ScalarType dtype = plan.parameters[0]->dtype;
    if (sequence_parallel_) {
      plan.communication.push_back({kAxis, CLEAVE_ALL_GATHER, dtype, regions * activation});
      plan.communication.push_back({kAxis, CLEAVE_REDUCE_SCATTER, dtype, regions * activation});
    } else {
      plan.communication.push_back({kAxis, CLEAVE_ALL_REDUCE, dtype, 2 * regions * activation});
    }
  }

  void start(const Runtime& runtime) override {
    comm_ = &runtime.comm(kAxis);
    units_ = &runtime.units;
  }

  void* query(std::string_view id) override {
    if (id == Partitioner::kInterface) return static_cast<Partitioner*>(this);
    if (id == OpsRewriter::kInterface) return static_cast<OpsRewriter*>(this);
    return nullptr;
  }

  Ops& rewrite(Ops& next) override {
    if (ranks_ == 1) return next;
    ops_ = std::make_unique<ParallelOps>(next, *comm_, shape_, sequence_parallel_, *units_);
    return *ops_;
  }

  void quiesce() override { ops_.reset(); }
  void destroy() override { delete this; }

 private:
  // A bias that one rank alone adds, and norms that see a part of the tokens.
  bool is_sum_of_terms(const Parameter& parameter) const {
    return sequence_parallel_ || parameter.name.ends_with(".bias");
  }

  bool sequence_parallel_;
  int ranks_ = 1;
  MicroBatchShape shape_ = {};
  Comm* comm_ = nullptr;
  const std::vector<UnitInfo>* units_ = nullptr;
  std::unique_ptr<ParallelOps> ops_;
};

constexpr cleave_option kOptions[] = {
    {"sequence_parallel", CLEAVE_OPTION_BOOL, "false", 0, 0, nullptr, "",
     "activations between the regions are cut along the tokens", 0},
};

constexpr cleave_plugin kPlugin =
    strategy_plugin<TensorParallel>("tensor-parallel", "0.1.0", kOptions, std::size(kOptions));

}  // namespace
}  // namespace cleave

CLEAVE_EXPORT_PLUGIN(cleave::kPlugin)
