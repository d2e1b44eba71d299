// The roles that a strategy may play; it implements those that it needs and hands them out through
// Strategy::query. Called on the rank's main thread. Which calls come when in a step:
//
//   for each visit of the step: unshard, [provide_gradients,] before_unit, the unit runs,
//     after_unit, reshard, [gradient_ready ...]          ([]: of a backward; gradient_ready also
//                                                         while the unit runs, from within it)
//   finish_gradients, the host clips, update { the host's optimizer, weights_changed }
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/gradient_exchange.h"
#include "cleave/ops.h"
#include "cleave/parameter.h"
#include "cleave/schedule.h"

namespace cleave {

struct CommUse;
struct Plan;

/// Role: decides what the other strategies' plans build on: how tensors are cut over ranks that
/// then hold different parts of the model, and what units recompute.
class Partitioner {
 public:
  static constexpr std::string_view kInterface = "cleave.partitioner/draft";
  /// Called before any strategy's plan(), with the same Plan that its own plan() gets: writes boxes
  /// and axes of all three placements, UnitInfo::recompute and chunk, Plan::activation_ranks. A
  /// gradient that is `partial` along an axis when the reducer has finished is summed by the host.
  /// Pure; throws ConfigError to refuse.
  virtual void partition(Plan& plan) = 0;

 protected:
  ~Partitioner() = default;
};

/// Role: sums gradients over an axis. At most one per run.
class GradientReducer {
 public:
  static constexpr std::string_view kInterface = "cleave.gradient_reducer/draft";
  /// Called once, after start and when the weights are there: sets `reduced_gradient` of each
  /// parameter, and `gradient` of those whose gradient is kept all the time. What it sets as
  /// `gradient` alone is `reduced_gradient` too. `backward_order`: in which gradients get ready.
  virtual void allocate_gradients(const std::vector<Parameter*>& backward_order) = 0;
  /// Before each backward of a unit: `gradient` of its parameters is there when this returns.
  virtual void provide_gradients(const UnitInfo&) {}
  /// Once per parameter and micro-batch, when nothing more is added to it there: at the end of the
  /// unit's backward, or as soon as the operation that adds to it says so. In backward order, which
  /// is the same on all ranks (unused parameters too, their gradient is zero). `is_last`: of the
  /// step.
  virtual void gradient_ready(Parameter& parameter, bool is_last) = 0;
  /// Returns when each `reduced_gradient` holds the sum over micro-batches and axis, as
  /// gradient_placement says.
  virtual void finish_gradients() = 0;

 protected:
  ~GradientReducer() = default;
};

/// Role: keeps parameter values only while a unit uses them. At most one per run.
class ParameterSharder {
 public:
  static constexpr std::string_view kInterface = "cleave.parameter_sharder/draft";
  /// Before a unit runs: `value` of its parameters is whole (the box of value_placement) when this
  /// returns. `upcoming`: the visits that follow in this step, the next one first.
  virtual void unshard(const Visit& visit, std::span<const Visit> upcoming) = 0;
  /// After it ran.
  virtual void reshard(const Visit& visit, std::span<const Visit> upcoming) = 0;

 protected:
  ~ParameterSharder() = default;
};

/// Role: says which part of each parameter this rank updates. At most one per run.
class OptimizerBinder {
 public:
  static constexpr std::string_view kInterface = "cleave.optimizer_binder/draft";
  /// Called once, after start: allocates `master` of each parameter (float32, shaped as
  /// state_placement says; the host then fills it) and `value` of those that are kept whole.
  virtual void allocate_weights(const std::vector<Parameter*>& parameters) = 0;
  /// The masters have new content (the first weights, an update, a loaded checkpoint): `value` must
  /// follow, at the latest when the next unshard returns.
  virtual void weights_changed() = 0;

 protected:
  ~OptimizerBinder() = default;
};

/// Role: sees every unit run. Before/after pairs nest properly.
class UnitObserver {
 public:
  static constexpr std::string_view kInterface = "cleave.unit_observer/draft";
  virtual void before_unit(const UnitInfo& unit, int micro_batch, Phase phase) = 0;
  virtual void after_unit(const UnitInfo& unit, int micro_batch, Phase phase) = 0;

 protected:
  ~UnitObserver() = default;
};

/// Role: replaces operations of the model (tensor parallel, low-rank adapters). Stacks: the
/// strategy that comes last is called first.
class OpsRewriter {
 public:
  static constexpr std::string_view kInterface = "cleave.ops_rewriter/draft";
  /// Called once, after start, before the first step. The result is used instead of `next`, which
  /// it may call; both live until quiesce(), the result is the strategy's.
  virtual Ops& rewrite(Ops& next) = 0;

 protected:
  ~OpsRewriter() = default;
};

/// Role: sums the reducer's gradients in another form (lossy compression). Stacks as OpsRewriter.
class GradientTransformer {
 public:
  static constexpr std::string_view kInterface = "cleave.gradient_transformer/draft";
  /// Called after every plan(), for each use with gradient buckets: it is dropped, and what takes
  /// its place is added to `plan`, the strategy's own: what is sent (with buckets where that goes
  /// through `next`, see below) and held. Pure; throws ConfigError to refuse.
  virtual void plan_exchange(const CommUse& use, Plan& plan) = 0;
  /// Called once, after start, before allocate_gradients. The result is used instead of `next`,
  /// which it may call; both live until quiesce(), the result is the strategy's.
  virtual GradientExchange& transform(GradientExchange& next) = 0;

 protected:
  ~GradientTransformer() = default;
};

/// One of a strategy's states: a float32 value for each element of each parameter. Ranks along
/// `axis`, and along axes where the gradient is `partial`, have their own; others equal ones.
struct StateKind {
  std::string name;  ///< no dots; checkpoints say "<strategy>.<name>.<parameter>"
  std::string axis;  ///< or a part of a divided one: "data.outer"
};

/// Role: has state that belongs into checkpoints, whose sum over ranks is what counts (error
/// feedback: what is still to be sent).
class ExtraState {
 public:
  static constexpr std::string_view kInterface = "cleave.extra_state/draft";
  /// Called after every plan() and plan_exchange(). Pure, the same on all ranks.
  virtual std::vector<StateKind> state_kinds() const = 0;
  /// Called once the gradients are allocated: this rank's state of the parameter, flat, in the
  /// order of the box of value_placement. The host reads it when it saves, which may be after any
  /// step. When a run resumes it writes it: each rank's own where as many ranks have their own as
  /// then, else the sum to the first and zero to the others; zero where the checkpoint has none.
  virtual at::Tensor state(const StateKind& kind, const Parameter& parameter) = 0;

 protected:
  ~ExtraState() = default;
};

/// Role: acts around the update of the weights (local SGD, DiLoCo). Stacks as OpsRewriter.
class StepWrapper {
 public:
  static constexpr std::string_view kInterface = "cleave.step_wrapper/draft";
  /// `next` updates the weights from the reduced and clipped gradients; to be called once. `step`
  /// from 0. Every rank calls it in the same step.
  virtual void update(int64_t step, const std::function<void()>& next) = 0;

 protected:
  ~StepWrapper() = default;
};

}  // namespace cleave
