#include "core/activation_forecast.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/activation_counter.h"
#include "core/tape.h"
#include "core/timeline.h"

namespace cleave {

namespace {

using Kind = Action::Kind;

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

struct Peak {
  int64_t bytes = 0;
  std::string unit;
  void include(int64_t other_bytes, const std::string& other_unit) {
    if (other_bytes > bytes) *this = {other_bytes, other_unit};
  }
};

// Takes the most of each run of a unit at its end.
class PeakOfRuns final : public UnitObserver {
 public:
  explicit PeakOfRuns(ActivationCounter& counter) : counter_(counter) {}

  void before_unit(const UnitInfo&, int, Phase) override { counter_.take_recent_peak_bytes(); }
  void after_unit(const UnitInfo& unit, int, Phase phase) override {
    const int64_t bytes = counter_.take_recent_peak_bytes();
    recent_.include(bytes, unit.name);
    ActivationForecast::OfUnit& of_unit = of_units_[unit.index];
    int64_t& most = phase == Phase::forward ? of_unit.forward : of_unit.backward;
    most = std::max(most, bytes);
  }

  /// Over the runs since the latest call.
  Peak take_recent() { return std::exchange(recent_, {}); }
  const std::map<int, ActivationForecast::OfUnit>& of_units() const { return of_units_; }

 private:
  ActivationCounter& counter_;
  Peak recent_;
  std::map<int, ActivationForecast::OfUnit> of_units_;
};

// Of one micro-batch in one chunk; peaks are above what was alive when the action began.
struct OfChunk {
  Peak forward, backward, weight;
  int64_t kept_bytes = 0;    ///< from forward to backward
  int64_t queued_bytes = 0;  ///< from the first half of backward to the second
};

// Walks each chunk on tensors without content.
class DryRun {
 public:
  DryRun(const std::vector<std::unique_ptr<Unit>>& units, const MicroBatchShape& shape,
         bool is_in_halves)
      : shape_(shape),
        is_in_halves_(is_in_halves),
        counter_(shape),
        peaks_(counter_),
        tape_(counter_, {{&counter_, &peaks_}}) {
    for (const auto& unit : units)
      units_[unit->info.chunk].push_back(std::make_unique<SeenUnit>(*unit, counter_));
    dtype_ = units[0]->info.parameters[0]->dtype;
    // tokens, targets and losses are no activations: allocated once a step, and booked so
    tokens_ = at::empty({shape.sequences, shape.tokens}, meta().dtype(at::kLong));
  }

  std::map<int, OfChunk> walk() {
    std::map<int, OfChunk> chunks;
    for (const auto& [chunk, units] : units_) forward(units, chunks[chunk]);
    for (auto it = units_.rbegin(); it != units_.rend(); ++it)
      backward(it->second, chunks[it->first]);
    return chunks;
  }
  /// What the units keep for all micro-batches.
  int64_t shared_bytes() { return counter_.live_bytes(); }
  const std::map<int, ActivationForecast::OfUnit>& of_units() const { return peaks_.of_units(); }

 private:
  using UnitList = std::vector<std::unique_ptr<Unit>>;

  static at::TensorOptions meta() { return at::TensorOptions().device(at::kMeta); }
  MicroBatch micro_batch() const { return {0, tokens_, tokens_, {}}; }
  // from and to other chunks
  at::Tensor arrival(bool is_own_end) const {
    if (is_own_end) return {};
    return at::empty(at::IntArrayRef(shape_.activation()), meta().dtype(dtype_));
  }
  Peak peak_above(int64_t before) {
    Peak peak = peaks_.take_recent();
    peak.bytes -= before;
    return peak;
  }

  void forward(const UnitList& units, OfChunk& chunk) {
    const int64_t before = counter_.live_bytes();
    tape_.forward(units, micro_batch(), arrival(units.front()->info.kind == UnitKind::embedding));
    chunk.forward = peak_above(before);
    chunk.kept_bytes = counter_.live_bytes() - before;
  }

  void backward(const UnitList& units, OfChunk& chunk) {
    const auto nothing = [](int) {};
    const at::Tensor gradient = arrival(units.back()->info.kind == UnitKind::head);
    const int64_t before = counter_.live_bytes();
    if (!is_in_halves_) {
      tape_.backward(units, micro_batch(), nothing, gradient);
      chunk.backward = peak_above(before);
      return;
    }
    tape_.backward_input(units, micro_batch(), gradient);
    chunk.backward = peak_above(before);
    const int64_t between = counter_.live_bytes();
    chunk.queued_bytes = between - (before - chunk.kept_bytes);
    tape_.backward_weight(units, micro_batch(), nothing);
    chunk.weight = peak_above(between);
  }

  const MicroBatchShape& shape_;
  bool is_in_halves_;
  at::ScalarType dtype_;
  at::Tensor tokens_;
  ActivationCounter counter_;
  PeakOfRuns peaks_;
  Tape tape_;
  std::map<int, UnitList> units_;
};

// What is alive along the actions.
ActivationForecast add_up(std::span<const Action> actions, std::map<int, OfChunk>& chunks,
                          int64_t shared_bytes) {
  ActivationForecast forecast{shared_bytes, 0, "", {}};
  Peak peak;
  int64_t alive = shared_bytes;
  for (const Action& action : actions) {
    const OfChunk& chunk = chunks[action.chunk];
    switch (action.kind) {
      case Kind::forward:
        peak.include(alive + chunk.forward.bytes, chunk.forward.unit);
        alive += chunk.kept_bytes;
        break;
      case Kind::backward:
      case Kind::backward_input:
        peak.include(alive + chunk.backward.bytes, chunk.backward.unit);
        alive += chunk.queued_bytes - chunk.kept_bytes;
        break;
      case Kind::backward_weight:
        peak.include(alive + chunk.weight.bytes, chunk.weight.unit);
        alive -= chunk.queued_bytes;
        break;
    }
    forecast.kept_bytes = std::max(forecast.kept_bytes, alive);
  }
  forecast.peak_bytes = peak.bytes;
  forecast.peak_unit = peak.unit;
  return forecast;
}

}  // namespace

ActivationForecast forecast_activations(const std::vector<std::unique_ptr<Unit>>& units,
                                        const MicroBatchShape& shape,
                                        std::span<const Action> actions) {
  const bool is_in_halves = std::any_of(actions.begin(), actions.end(), [](const Action& action) {
    return action.kind == Kind::backward_input;
  });
  DryRun run(units, shape, is_in_halves);
  run.walk();  // makes what all micro-batches share
  const int64_t shared_bytes = run.shared_bytes();
  std::map<int, OfChunk> chunks = run.walk();
  ActivationForecast forecast = add_up(actions, chunks, shared_bytes);
  if (!is_in_halves && max_open({actions.begin(), actions.end()}) == 1)
    forecast.of_units = run.of_units();
  return forecast;
}

}  // namespace cleave
