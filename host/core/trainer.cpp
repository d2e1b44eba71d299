#include "core/trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cleave/error.h"
#include "core/extra_state.h"
#include "core/gradient_norm.h"
#include "core/layout.h"
#include "core/lr_schedule.h"
#include "core/saved_state.h"
#include "process/resident.h"

namespace cleave {

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

constexpr double kMiB = 1024.0 * 1024.0;

}  // namespace

// The global number of counted targets: summed while the first forward runs, needed by the first
// backward, which scales the loss by it.
struct Trainer::TargetCount {
  at::Tensor targets;  // int64 scalar, all ranks' after the reduction
  Work reduction;
  int64_t value = 0;

  void await(int64_t step, at::Tensor gradient_scale) {
    if (value != 0) return;
    if (reduction.valid()) reduction.wait_host();
    value = targets.item<int64_t>();
    if (value == 0)
      throw RuntimeError(message("step ", step + 1,
                                 ": no target counts in the whole batch (all equal "
                                 "data.ignore_token); check the data or ignore_token"));
    gradient_scale.fill_(1.0 / static_cast<double>(value));
  }
};

Trainer::Trainer(const TrainerContext& context, Trace* trace, const CheckpointReader* resume)
    : context_(context),
      num_micro_batches_(num_micro_batches(context.config, context.mesh)),
      flops_per_step_(flops_per_token(context.config.model, context.config.data.sequence_length) *
                      static_cast<double>(context.config.train.global_batch_size *
                                          context.config.data.sequence_length)),
      trace_(trace),
      timer_(context.run.chunk_of_unit.size()) {
  UnitHooks hooks;
  hooks.observers.push_back(&ops_);
  hooks.observers.push_back(&timer_);
  if (trace_) {
    trace_observer_ = std::make_unique<TraceObserver>(*trace_);
    hooks.observers.push_back(trace_observer_.get());
    context_.communicators.set_trace(
        [this](const std::string& name, int64_t bytes, Clock::time_point begin,
               Clock::time_point end) { trace_->span("communication", name, begin, end, bytes); });
  }
  Model& model = context_.model;
  Strategies& strategies = context_.strategies;
  strategies.start({context_.mesh, context_.rank, context_.device, model.unit_infos,
                    context_.parameters,
                    [&communicators = context_.communicators](std::string_view axis) -> Comm& {
                      return communicators.axis(axis);
                    }});
  model.table.materialize(context_.device,
                          resume ? checkpoint_weights(*resume) : model.initial_weights,
                          context_.parameters, strategies.optimizer_binder());
  for (const auto& observer : strategies.observers()) hooks.observers.push_back(observer.get());
  hooks.sharder = strategies.parameter_sharder();
  hooks.before_gradients = [this](const UnitInfo& unit) { announcer_->before(unit); };
  tape_ = std::make_unique<Tape>(strategies.rewrite(ops_), std::move(hooks));
  stage_ = std::make_unique<StageRunner>(stage_context(), *tape_);
  allocate_gradients(backward_order(model.unit_infos));
  partial_gradients_ = std::make_unique<PartialGradients>(
      model.parameters, context_.mesh,
      [&](const std::string& axis) -> Comm& { return context_.communicators.axis(axis); });
  optimizer_ = make_adamw(context_.parameters, context_.config.optimizer);
  if (resume) {
    load_optimizer(*optimizer_, context_.parameters, *resume);
    ExtraStates(context_).load(*resume);
  }
}

StageRunner::Context Trainer::stage_context() {
  const PlannedRun& run = context_.run;
  const MicroBatchShape& shape = run.shape;
  return {
      context_.model.units, run.num_chunks(), context_.communicators.axis("pipeline"),
      shape.activation(),
      at::TensorOptions().dtype(scalar_type(context_.config.train.dtype)).device(context_.device)};
}

void Trainer::allocate_gradients(const std::vector<Parameter*>& backward_order) {
  MemoryScope scope(MemoryCategory::gradients);
  if (GradientReducer* reducer = context_.strategies.gradient_reducer())
    reducer->allocate_gradients(backward_order);
  else
    for (Parameter* parameter : backward_order)
      parameter->reduced_gradient = parameter->gradient =
          at::zeros_like(parameter->value, at::kFloat);
  for (Parameter* parameter : context_.model.parameters)  // other ranks': empty
    if (!parameter->reduced_gradient.defined())
      parameter->reduced_gradient = at::zeros_like(parameter->master);
  announcer_ = std::make_unique<GradientAnnouncer>(
      backward_order, context_.run.chunk_of_unit.size(), num_micro_batches_,
      context_.strategies.gradient_reducer(), context_.device.is_cpu());
}

Trainer::~Trainer() = default;

std::vector<double> Trainer::unit_ms() {
  bool is_first = true;
  for (const MeshAxis& axis : context_.mesh.axes())
    is_first &= axis.name == "pipeline" || context_.mesh.coordinate(context_.rank, axis.name) == 0;
  const auto units = static_cast<int64_t>(timer_.ms().size());
  at::Tensor ms = at::zeros({units}, at::kDouble);
  for (int64_t i = 0; is_first && i < units; ++i) ms[i] = timer_.ms()[i] / num_timed_steps_;
  ms = ms.to(context_.device);
  context_.communicators.world().all_reduce(ms).wait_host();
  ms = ms.cpu();
  return {ms.const_data_ptr<double>(), ms.const_data_ptr<double>() + units};
}

StepRecord Trainer::train_step(int64_t step) {
  const auto begin = Clock::now();
  stats_before_ = context_.communicators.stats();
  const Batch batch = read_batch(context_.dataset, context_.config, context_.mesh, context_.rank,
                                 step, context_.device);
  const double data_ms = ms_since(begin);

  TargetCount count{batch.valid_targets, {}, 0};
  Comm& data = context_.communicators.axis("data");
  if (data.size() > 1) count.reduction = data.all_reduce(count.targets);
  const auto f64 = at::TensorOptions().dtype(at::kDouble).device(context_.device);
  const LossSink sink{at::zeros({}, f64), at::zeros({}, f64),
                      context_.config.data.ignore_token.value_or(-1)};

  const StageTimes times = forward_backward(step, batch, sink, count);
  ++num_timed_steps_;
  if (GradientReducer* reducer = context_.strategies.gradient_reducer())
    reducer->finish_gradients();
  partial_gradients_->sum();
  if (context_.after_reduction) context_.after_reduction(step);

  const double norm = gradient_norm(step);
  const double lr = learning_rate(context_.config.optimizer, step);
  update_weights(step, lr, clip_coefficient(norm, context_.config.optimizer.clip_norm));

  StepRecord record = gather_record(step, sink.sum, count.value, data_ms, times);
  record.grad_norm = norm;
  record.lr = lr;
  record.step_ms = ms_since(begin);
  record.tokens_per_s = static_cast<double>(context_.config.train.global_batch_size *
                                            context_.config.data.sequence_length) /
                        record.step_ms * 1000.0;
  record.tflops = flops_per_step_ / record.step_ms * 1e-9;
  return record;
}

StageTimes Trainer::forward_backward(int64_t step, const Batch& batch, const LossSink& sink,
                                     TargetCount& count) {
  MemoryScope scope(MemoryCategory::activations);
  for (Parameter* parameter : context_.parameters) parameter->gradient_is_stale = true;
  tape_->begin_step(context_.run.visits);
  announcer_->begin_step();
  return stage_->run(context_.run.actions(),
                     {[&](int m) {
                        return MicroBatch{m, batch.tokens[m], batch.targets[m], sink};
                      },
                      [&] { count.await(step, sink.gradient_scale); },
                      [&](int unit) { announcer_->after(unit); }});
}

// The optimizer inside the strategies' wrappers, the last one outermost.
void Trainer::update_weights(int64_t step, double lr, double clip_coefficient) {
  const auto begin = Clock::now();
  std::function<void()> update = [&] {
    optimizer_->step(lr, clip_coefficient);
    publish_weights();
  };
  for (const auto& wrapper : context_.strategies.step_wrappers())
    update = [&wrapper, step, next = std::move(update)] { wrapper->update(step, next); };
  update();
  if (trace_) trace_->span("compute", "optimizer", begin, Clock::now());
}

// Units compute with the new masters from here on.
void Trainer::publish_weights() {
  if (OptimizerBinder* binder = context_.strategies.optimizer_binder()) {
    binder->weights_changed();
    return;
  }
  for (Parameter* parameter : context_.parameters)
    if (!parameter->master.is_same(parameter->value)) parameter->value.copy_(parameter->master);
}

// Each rank sums what it owns; all get the same bits, so that they clip alike, or stop alike.
double Trainer::gradient_norm(int64_t step) {
  const double mine = gradient_square_sum(context_.parameters, context_.mesh, context_.rank);
  const auto f64 = at::TensorOptions().dtype(at::kDouble).device(context_.device);
  at::Tensor sum = at::full({}, std::isfinite(mine) ? mine : INFINITY, f64);
  Comm& world = context_.communicators.world();
  if (world.size() > 1) world.all_reduce(sum).wait_host();
  const double norm = std::sqrt(sum.item<double>());
  if (!std::isfinite(norm))
    throw RuntimeError(message("step ", step + 1,
                               ": the gradient norm is not finite; weights are as ", "after step ",
                               step, "; lower optimizer.lr or check the data"));
  return norm;
}

// Ranks that differ along other axes hold the same sequences; of a pipeline the last has the loss,
// the others add nothing.
bool Trainer::has_own_loss(int rank) const {
  for (const MeshAxis& axis : context_.mesh.axes())
    if (axis.name != "data" && axis.name != "pipeline" &&
        context_.mesh.coordinate(rank, axis.name) != 0)
      return false;
  return true;
}

// One small all-gather a step: every rank's terms of the loss and its own measurements. The loss is
// added in rank order, so all ranks compute the same bits.
StepRecord Trainer::gather_record(int64_t step, const at::Tensor& loss_sum, int64_t valid_targets,
                                  double data_ms, const StageTimes& times) {
  const CommStats& stats = context_.communicators.stats();
  std::vector<double> mine = {loss_sum.item<double>(),
                              data_ms,
                              stats.exposed_ms - stats_before_.exposed_ms,
                              stats.wire_bytes - stats_before_.wire_bytes,
                              context_.memory.peak_bytes() / kMiB,
                              resident_mib(),
                              times.busy_ms,
                              times.whole_ms};
  const size_t first_category = mine.size();
  for (size_t i = 0; i < kMemoryCategories; ++i)
    mine.push_back(context_.memory.peak_bytes(static_cast<MemoryCategory>(i)) / kMiB);
  const auto num_fields = static_cast<int64_t>(mine.size());
  const at::Tensor input =
      at::from_blob(mine.data(), {num_fields}, at::kDouble).clone().to(context_.device);
  Comm& world = context_.communicators.world();
  at::Tensor output = at::empty({world.size() * num_fields}, input.options());
  world.all_gather(output, input).wait_host();

  StepRecord record{};
  record.step = step + 1;
  record.valid_tokens = valid_targets;
  for (size_t i = 0; i < kMemoryCategories; ++i)
    record.memory_mib.push_back({to_string(static_cast<MemoryCategory>(i)), {}});
  const at::Tensor all = output.cpu();
  const double* fields = all.const_data_ptr<double>();
  double total = 0, busy_ms = 0, whole_ms = 0;
  for (int rank = 0; rank < world.size(); ++rank, fields += num_fields) {
    if (has_own_loss(rank)) total += fields[0];
    record.data_ms = std::max(record.data_ms, fields[1]);
    record.exposed_communication_ms = std::max(record.exposed_communication_ms, fields[2]);
    record.wire_bytes = std::max(record.wire_bytes, fields[3]);
    record.peak_memory_mib.push_back(fields[4]);
    record.resident_mib.push_back(fields[5]);
    busy_ms += fields[6];
    whole_ms = std::max(whole_ms, fields[7]);
    for (size_t i = 0; i < kMemoryCategories; ++i)
      record.memory_mib[i].mib.push_back(fields[first_category + i]);
  }
  if (context_.run.num_stages() > 1)
    record.bubble_fraction = 1 - busy_ms / (world.size() * whole_ms);
  record.loss = total / static_cast<double>(valid_targets);
  return record;
}

}  // namespace cleave
