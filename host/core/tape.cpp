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

Tape::Tape(const std::vector<std::unique_ptr<Unit>>& units, Ops& ops, UnitHooks hooks)
    : units_(units), ops_(ops), hooks_(std::move(hooks)) {}

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

void Tape::forward(const MicroBatch& micro_batch) {
  std::vector<Entry>& record = records_[micro_batch.index];
  CLEAVE_CHECK(record.empty(), "micro-batch ", micro_batch.index, " is on the tape already");
  // The first unit reads tokens, which can't require gradients; this stands for its input.
  const auto f32 = at::TensorOptions().dtype(at::kFloat).device(micro_batch.tokens.device());
  at::Tensor activation = at::empty({0}, f32);
  for (const auto& unit : units_) {
    const Visit visit{&unit->info, micro_batch.index, Phase::forward};
    const auto upcoming = advance(visit);
    if (hooks_.sharder) hooks_.sharder->unshard(visit, upcoming);
    const bool keeps_input_only = unit->info.recompute.unit && unit != units_.back();
    const at::Tensor input = activation.detach().requires_grad_(true);
    {
      c10::AutoGradMode mode(!keeps_input_only);
      activation = run(*unit, input, micro_batch, Phase::forward);
    }
    record.push_back({input, keeps_input_only ? at::Tensor() : activation});
    if (hooks_.sharder) hooks_.sharder->reshard(visit, upcoming);
  }
}

void Tape::backward(const MicroBatch& micro_batch, const std::function<void(int)>& after_unit) {
  auto found = records_.find(micro_batch.index);
  CLEAVE_CHECK(found != records_.end(), "micro-batch ", micro_batch.index, " is not on the tape");
  std::vector<Entry>& record = found->second;
  at::Tensor gradient = at::ones_like(record.back().output);
  for (size_t i = units_.size(); i-- > 0;) {
    const UnitInfo& info = units_[i]->info;
    const Visit visit{&info, micro_batch.index, Phase::backward};
    const auto upcoming = advance(visit);
    if (hooks_.sharder) hooks_.sharder->unshard(visit, upcoming);
    if (hooks_.reducer) hooks_.reducer->provide_gradients(info);
    Entry entry = std::move(record[i]);
    record.pop_back();
    if (!entry.output.defined())
      entry.output = run(*units_[i], entry.input, micro_batch, Phase::recompute);
    Observed observed(hooks_.observers, info, micro_batch.index, Phase::backward);
    gradient = torch::autograd::grad({entry.output}, {entry.input}, {gradient})[0];
    entry = {};
    observed.done();
    if (hooks_.sharder) hooks_.sharder->reshard(visit, upcoming);
    after_unit(static_cast<int>(i));
  }
  records_.erase(found);
}

}  // namespace cleave
