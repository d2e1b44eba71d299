#include "core/activation_forecast.h"

#include <ATen/ATen.h>

#include "core/activation_counter.h"
#include "core/tape.h"

namespace cleave {

namespace {

// What a unit returns is a sum of branches, which the counter doesn't see.
class SeenUnit final : public Unit {
 public:
  SeenUnit(Unit& unit, ActivationCounter& counter) : unit_(unit), counter_(counter) {
    info = unit.info;
  }
  at::Tensor forward(Ops& ops, const at::Tensor& input, const MicroBatch& micro_batch) override {
    const at::Tensor output = unit_.forward(ops, input, micro_batch);
    counter_.see(output);
    return output;
  }

 private:
  Unit& unit_;
  ActivationCounter& counter_;
};

// Takes the most of each visit when the unit has run.
class PeakOfVisits final : public ParameterSharder {
 public:
  PeakOfVisits(ActivationCounter& counter, std::map<int, ActivationForecast::OfUnit>& of_units)
      : counter_(counter), of_units_(of_units) {}

  void unshard(const Visit&, std::span<const Visit>) override { counter_.take_recent_peak_bytes(); }
  void reshard(const Visit& visit, std::span<const Visit>) override {
    ActivationForecast::OfUnit& of_unit = of_units_[visit.unit->index];
    (visit.phase == Phase::forward ? of_unit.forward : of_unit.backward) =
        counter_.take_recent_peak_bytes();
  }

 private:
  ActivationCounter& counter_;
  std::map<int, ActivationForecast::OfUnit>& of_units_;
};

}  // namespace

ActivationForecast forecast_activations(const std::vector<std::unique_ptr<Unit>>& units,
                                        const MicroBatchShape& shape, int micro_batches_alive) {
  ActivationCounter counter(shape.ranks);
  std::vector<std::unique_ptr<Unit>> seen;
  for (const auto& unit : units) seen.push_back(std::make_unique<SeenUnit>(*unit, counter));
  std::map<int, ActivationForecast::OfUnit> of_units;
  PeakOfVisits peaks(counter, of_units);
  Tape tape(counter, {{&counter}, &peaks});
  const auto meta = at::TensorOptions().device(at::kMeta);
  // tokens, targets and losses are no activations: allocated once a step, and booked so
  const at::Tensor tokens = at::empty({shape.sequences, shape.tokens}, meta.dtype(at::kLong));
  const auto micro_batch = [&](int index) { return MicroBatch{index, tokens, tokens, {}}; };
  // from and to other pipeline ranks
  const auto arrival = [&](bool is_own_end) {
    if (is_own_end) return at::Tensor();
    return at::empty(at::IntArrayRef(shape.activation()),
                     meta.dtype(units[0]->info.parameters[0]->dtype));
  };
  for (int i = 0; i < micro_batches_alive; ++i)
    tape.forward(seen, micro_batch(i), arrival(units.front()->info.kind == UnitKind::embedding));
  const int64_t kept = counter.live_bytes();
  for (int i = 0; i < micro_batches_alive; ++i)
    tape.backward(
        seen, micro_batch(i), [](int) {}, arrival(units.back()->info.kind == UnitKind::head));
  if (micro_batches_alive > 1) of_units.clear();
  return {kept, counter.peak_bytes(), counter.peak_unit(), std::move(of_units)};
}

}  // namespace cleave
