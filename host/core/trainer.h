// The training loop of one rank. Re-entrant: several trainers may run in one process (threads).
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "core/batch.h"
#include "core/communicators.h"
#include "core/gradient_announcer.h"
#include "core/memory_account.h"
#include "core/model.h"
#include "core/optimizer.h"
#include "core/partial_gradients.h"
#include "core/planned_run.h"
#include "core/stage_runner.h"
#include "core/strategies.h"
#include "core/tape.h"
#include "core/torch_ops.h"
#include "core/trace_observer.h"
#include "core/unit_timer.h"
#include "report/step_record.h"
#include "report/trace.h"

namespace cleave {

/// What a trainer is given; all outlive it.
struct TrainerContext {
  const RunConfig& config;
  const Mesh& mesh;
  int rank;
  at::Device device;
  Model& model;
  std::vector<Parameter*>& parameters;  ///< of this rank's units
  const Dataset& dataset;
  Communicators& communicators;
  Strategies& strategies;
  const PlannedRun& run;
  MemoryAccount& memory;
  /// Called when a step's gradients are reduced, before they are clipped; may be empty. `step` from
  /// 0.
  std::function<void(int64_t step)> after_reduction;
};

class Trainer {
 public:
  /// Collective. Allocates weights, gradients and optimizer state, and fills them from `resume`
  /// where it is given. `trace` may be nullptr.
  Trainer(const TrainerContext& context, Trace* trace, const CheckpointReader* resume = nullptr);
  ~Trainer();

  /// Collective: time that each unit takes a step, by unit index, on the first rank that holds it.
  std::vector<double> unit_ms();

  /// One optimizer update (from 0). Every rank returns the same record. RuntimeError naming the
  /// step on a non-finite gradient or an empty batch.
  StepRecord train_step(int64_t step);

  const Optimizer& optimizer() const { return *optimizer_; }

 private:
  struct TargetCount;

  StageTimes forward_backward(int64_t step, const Batch& batch, const LossSink& sink,
                              TargetCount& count);
  void allocate_gradients(const std::vector<Parameter*>& backward_order);
  void update_weights(int64_t step, double lr, double clip_coefficient);
  void publish_weights();
  double gradient_norm(int64_t step);
  StepRecord gather_record(int64_t step, const at::Tensor& loss_sum, int64_t valid_targets,
                           double data_ms, const StageTimes& times);
  bool has_own_loss(int rank) const;
  StageRunner::Context stage_context();

  TrainerContext context_;
  int64_t num_micro_batches_;
  double flops_per_step_;
  TorchOps ops_;
  Trace* trace_;
  std::unique_ptr<TraceObserver> trace_observer_;
  UnitTimer timer_;
  int64_t num_timed_steps_ = 0;
  std::unique_ptr<Tape> tape_;  // made after the strategies have rewritten the ops
  std::unique_ptr<PartialGradients> partial_gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<StageRunner> stage_;
  std::unique_ptr<GradientAnnouncer> announcer_;
  CommStats stats_before_;
};

}  // namespace cleave
