#include "core/tape.h"

#include <ATen/ATen.h>
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

Tape::Tape(const std::vector<std::unique_ptr<Unit>>& units, Ops& ops,
           const std::vector<UnitObserver*>& observers)
    : units_(units), ops_(ops), observers_(observers) {}

void Tape::forward(const MicroBatch& micro_batch) {
  std::vector<Entry>& record = records_[micro_batch.index];
  CLEAVE_CHECK(record.empty(), "micro-batch ", micro_batch.index, " is on the tape already");
  // The first unit reads tokens, which can't require gradients; this stands for its input.
  const auto f32 = at::TensorOptions().dtype(at::kFloat).device(micro_batch.tokens.device());
  at::Tensor activation = at::empty({0}, f32);
  for (const auto& unit : units_) {
    Observed observed(observers_, unit->info, micro_batch.index, Phase::forward);
    const at::Tensor input = activation.detach().requires_grad_(true);
    activation = unit->forward(ops_, input, micro_batch);
    record.push_back({input, activation});
    observed.done();
  }
}

void Tape::backward(const MicroBatch& micro_batch, const std::function<void(int)>& after_unit) {
  auto found = records_.find(micro_batch.index);
  CLEAVE_CHECK(found != records_.end(), "micro-batch ", micro_batch.index, " is not on the tape");
  std::vector<Entry>& record = found->second;
  at::Tensor gradient = at::ones_like(record.back().output);
  for (size_t i = units_.size(); i-- > 0;) {
    Observed observed(observers_, units_[i]->info, micro_batch.index, Phase::backward);
    Entry entry = std::move(record[i]);
    record.pop_back();
    gradient = torch::autograd::grad({entry.output}, {entry.input}, {gradient})[0];
    entry = {};
    observed.done();
    after_unit(static_cast<int>(i));
  }
  records_.erase(found);
}

}  // namespace cleave
