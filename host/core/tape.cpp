#include "core/tape.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "cleave/error.h"

namespace cleave {

namespace {

// Calls before_unit now and after_unit at the end of the scope, in reverse order.
class Observed {
 public:
  Observed(const std::vector<UnitObserver*>& observers, const UnitInfo& unit, int micro_batch,
           Phase phase)
      : observers_(observers), unit_(unit), micro_batch_(micro_batch), phase_(phase) {
    for (UnitObserver* observer : observers_) observer->before_unit(unit_, micro_batch_, phase_);
  }
  /// Not in the destructor: a hook may throw.
  void done() {
    for (auto it = observers_.rbegin(); it != observers_.rend(); ++it)
      (*it)->after_unit(unit_, micro_batch_, phase_);
  }

 private:
  const std::vector<UnitObserver*>& observers_;
  const UnitInfo& unit_;
  int micro_batch_;
  Phase phase_;
};

}  // namespace

std::span<const Visit> Tape::advance(const Visit& visit) {
  if (left_.empty()) return {};
  const Visit& planned = left_.front();
  CLEAVE_CHECK(planned.unit->index == visit.unit->index && planned.phase == visit.phase &&
                   planned.micro_batch == visit.micro_batch,
               "unit ", visit.unit->name, " runs where ", planned.unit->name, " was planned");
  return left_ = left_.subspan(1);
}

at::Tensor Tape::run(Unit& unit, const at::Tensor& input, const MicroBatch& micro_batch,
                     Phase phase) {
  Observed observed(hooks_.observers, unit.info, micro_batch.index, phase);
  const at::Tensor output = unit.forward(ops_, input, micro_batch);
  observed.done();
  return output;
}

at::Tensor Tape::forward(Units units, const MicroBatch& micro_batch, const at::Tensor& input) {
  // The embedding reads tokens, which can't require gradients; this stands for its input.
  const auto f32 = at::TensorOptions().dtype(at::kFloat).device(micro_batch.tokens.device());
  at::Tensor activation = input.defined() ? input : at::empty({0}, f32);
  for (const auto& unit : units) {
    const UnitInfo& info = unit->info;
    const Visit visit{&info, micro_batch.index, Phase::forward};
    const auto upcoming = advance(visit);
    if (hooks_.sharder) hooks_.sharder->unshard(visit, upcoming);
    const bool keeps_input_only = info.recompute.unit && info.kind != UnitKind::head;
    const at::Tensor own_input = activation.detach().requires_grad_(true);
    {
      c10::AutoGradMode mode(!keeps_input_only);
      activation = run(*unit, own_input, micro_batch, Phase::forward);
    }
    const bool is_new = records_
                            .insert({Key{info.index, micro_batch.index},
                                     {own_input, keeps_input_only ? at::Tensor() : activation}})
                            .second;
    CLEAVE_CHECK(is_new, "micro-batch ", micro_batch.index, " of unit ", info.name,
                 " is on the tape already");
    if (hooks_.sharder) hooks_.sharder->reshard(visit, upcoming);
  }
  return activation.detach();
}

at::Tensor Tape::run_backward(Unit& unit, const MicroBatch& micro_batch,
                              const at::Tensor& gradient) {
  const auto found = records_.find({unit.info.index, micro_batch.index});
  CLEAVE_CHECK(found != records_.end(), "micro-batch ", micro_batch.index, " of unit ",
               unit.info.name, " is not on the tape");
  Entry entry = std::move(found->second);
  records_.erase(found);
  if (!entry.output.defined()) entry.output = run(unit, entry.input, micro_batch, Phase::recompute);
  Observed observed(hooks_.observers, unit.info, micro_batch.index, Phase::backward);
  const at::Tensor output_gradient =
      gradient.defined() ? gradient : at::ones_like(entry.output.detach());
  const at::Tensor input_gradient =
      torch::autograd::grad({entry.output}, {entry.input}, {output_gradient})[0];
  entry = {};
  observed.done();
  return input_gradient;
}

at::Tensor Tape::backward(Units units, const MicroBatch& micro_batch,
                          const std::function<void(int)>& after_unit, const at::Tensor& gradient) {
  at::Tensor current = gradient;
  for (size_t i = units.size(); i-- > 0;) {
    const UnitInfo& info = units[i]->info;
    const Visit visit{&info, micro_batch.index, Phase::backward};
    const auto upcoming = advance(visit);
    if (hooks_.sharder) hooks_.sharder->unshard(visit, upcoming);
    if (hooks_.before_gradients) hooks_.before_gradients(info);
    current = run_backward(*units[i], micro_batch, current);
    if (hooks_.sharder) hooks_.sharder->reshard(visit, upcoming);
    after_unit(info.index);
  }
  return current;
}

at::Tensor Tape::backward_input(Units units, const MicroBatch& micro_batch,
                                const at::Tensor& gradient) {
  at::Tensor current = gradient;
  for (size_t i = units.size(); i-- > 0;) {
    const UnitInfo& info = units[i]->info;
    const Visit visit{&info, micro_batch.index, Phase::backward};
    const auto upcoming = advance(visit);
    if (hooks_.sharder) hooks_.sharder->unshard(visit, upcoming);
    DeferredGradients& deferred = deferred_[{info.index, micro_batch.index}];
    std::vector<DeferredGradients*> before;
    for (Parameter* parameter : info.parameters)
      before.push_back(std::exchange(parameter->deferred, &deferred));
    current = run_backward(*units[i], micro_batch, current);
    for (size_t p = 0; p < before.size(); ++p) info.parameters[p]->deferred = before[p];
    if (hooks_.sharder) hooks_.sharder->reshard(visit, upcoming);
  }
  return current;
}

void Tape::backward_weight(Units units, const MicroBatch& micro_batch,
                           const std::function<void(int)>& after_unit) {
  const c10::AutoGradMode no_grad(false);  // as where autograd would have made the contributions
  for (size_t i = units.size(); i-- > 0;) {
    const UnitInfo& info = units[i]->info;
    if (hooks_.before_gradients) hooks_.before_gradients(info);
    const auto found = deferred_.find({info.index, micro_batch.index});
    CLEAVE_CHECK(found != deferred_.end(), "micro-batch ", micro_batch.index, " of unit ",
                 info.name, " has no gradients waiting");
    Observed observed(hooks_.observers, info, micro_batch.index, Phase::weight);
    for (const auto& contribution : found->second) contribution();
    deferred_.erase(found);
    observed.done();
    after_unit(info.index);
  }
}

}  // namespace cleave
