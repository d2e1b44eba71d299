// Walks a step with groups that only count, so that prediction and run can't disagree.
#include <algorithm>

#include "cleave/sharded_units.h"

namespace cleave {

namespace {

struct Tally {
  ShardingForecast forecast;
  int64_t value_bytes = 0;
  int64_t gradient_bytes = 0;

  void add_values(int64_t bytes) {
    value_bytes += bytes;
    forecast.peak_value_bytes = std::max(forecast.peak_value_bytes, value_bytes);
  }
  void add_gradients(int64_t bytes) {
    gradient_bytes += bytes;
    forecast.peak_gradient_bytes = std::max(forecast.peak_gradient_bytes, gradient_bytes);
  }
};

class CountingGroup final : public ShardGroup {
 public:
  CountingGroup(const GroupSize& size, bool keep_values, Tally& tally)
      : ShardGroup(size.parameters), size_(size), keep_values_(keep_values), tally_(tally) {}

  void allocate_weights() override {}
  void start_gather() override {
    tally_.forecast.gathered_bytes += size_.value_bytes;
    if (!keep_values_) tally_.add_values(size_.value_bytes);
  }
  void finish_gather() override {}
  void free_values() override { tally_.add_values(-size_.value_bytes); }
  void allocate_gradient_shards() override {}
  void allocate_gradients() override { tally_.add_gradients(size_.gradient_bytes); }
  void start_reduce(bool is_first) override {
    tally_.forecast.reduced_bytes += size_.gradient_bytes;
    extra_bytes_ = is_first ? 0 : size_.shard_bytes;
    tally_.add_gradients(extra_bytes_);
  }
  void finish_reduce() override { tally_.add_gradients(-extra_bytes_); }
  void free_gradients() override { tally_.add_gradients(-size_.gradient_bytes); }

 private:
  GroupSize size_;
  bool keep_values_;
  Tally& tally_;
  int64_t extra_bytes_ = 0;
};

}  // namespace

ShardingForecast forecast(const std::vector<GroupSize>& groups, const ShardingPolicy& policy,
                          const std::vector<UnitInfo>& units, size_t num_parameters,
                          std::span<const Visit> visits) {
  Tally tally;
  ShardedUnits driver;
  for (const GroupSize& group : groups) {
    const bool keep_values = group.keep_values || policy.keep_values;
    driver.add(std::make_unique<CountingGroup>(group, keep_values, tally), keep_values);
  }
  driver.finish_adding(policy, units, num_parameters);
  const std::vector<Parameter*> order = backward_order(units);
  driver.allocate_gradients(order);
  driver.weights_changed();
  for (size_t i = 0; i < visits.size(); ++i) {
    const Visit& visit = visits[i];
    const auto upcoming = visits.subspan(i + 1);
    driver.unshard(visit, upcoming);
    if (visit.phase == Phase::backward) driver.provide_gradients(*visit.unit);
    driver.reshard(visit, upcoming);
    if (visit.phase != Phase::backward) continue;
    for (Parameter* parameter : order)
      if (parameter->units.front() == visit.unit->index)
        driver.gradient_ready(*parameter, visit.micro_batch == visits.back().micro_batch);
  }
  driver.finish_gradients();
  return tally.forecast;
}

}  // namespace cleave
