#include "cleave/sharding_plan.h"

#include <algorithm>

#include "cleave/error.h"

namespace cleave {

namespace {

constexpr char kAxis[] = "data";
constexpr int64_t kFloatBytes = sizeof(float);

// Of one step on one rank, in bytes.
struct Tally {
  int64_t values = 0;     // gathered and alive, kept ones left out
  int64_t gradients = 0;  // whole ones
  int64_t peak_values = 0;
  int64_t peak_gradients = 0;
  int64_t gathered = 0;
  int64_t reduced = 0;

  void add_values(int64_t bytes) {
    values += bytes;
    peak_values = std::max(peak_values, values);
  }
  void add_gradients(int64_t bytes) {
    gradients += bytes;
    peak_gradients = std::max(peak_gradients, gradients);
  }
};

class CountingGroup final : public ShardGroup {
 public:
  CountingGroup(const GroupSize& size, bool keep_values, Tally& tally)
      : ShardGroup(size.parameters),
        size_(size),
        value_bytes_(static_cast<int64_t>(c10::elementSize(size.parameters[0]->dtype))),
        keep_values_(keep_values),
        tally_(tally) {}

  void allocate_weights() override {}
  void start_gather() override {
    tally_.gathered += value_bytes_ * size_.sent_elements;
    if (!keep_values_) tally_.add_values(value_bytes_ * size_.whole_elements);
  }
  void finish_gather() override {}
  void free_values() override { tally_.add_values(-value_bytes_ * size_.whole_elements); }
  void allocate_gradient_shards() override {}
  void allocate_gradients() override { tally_.add_gradients(kFloatBytes * size_.whole_elements); }
  void start_reduce(bool) override { tally_.reduced += kFloatBytes * size_.sent_elements; }
  void finish_reduce() override {}
  void free_gradients() override { tally_.add_gradients(-kFloatBytes * size_.whole_elements); }

 private:
  GroupSize size_;
  int64_t value_bytes_;
  bool keep_values_;
  Tally& tally_;
};

// Walks a step with groups that only count, so that prediction and run can't disagree.
Tally walk_step(const Plan& plan, const std::vector<GroupSize>& groups,
                const ShardingPolicy& policy) {
  Tally tally;
  ShardedUnits driver;
  for (const GroupSize& group : groups) {
    const bool keep_values = group.keep_values || policy.keep_values;
    driver.add(std::make_unique<CountingGroup>(group, keep_values, tally), keep_values);
  }
  driver.finish_adding(policy, plan.units, plan.parameters.size());
  const std::vector<Parameter*> order = backward_order(plan.units);
  driver.allocate_gradients(order);
  driver.weights_changed();
  for (size_t i = 0; i < plan.visits.size(); ++i) {
    const Visit& visit = plan.visits[i];
    const auto upcoming = plan.visits.subspan(i + 1);
    driver.unshard(visit, upcoming);
    if (visit.phase == Phase::backward) driver.provide_gradients(*visit.unit);
    driver.reshard(visit, upcoming);
    if (visit.phase != Phase::backward) continue;
    for (Parameter* parameter : order)
      if (parameter->units.front() == visit.unit->index)
        driver.gradient_ready(*parameter, visit.micro_batch == plan.visits.back().micro_batch);
  }
  driver.finish_gradients();
  return tally;
}

}  // namespace

void shard(Parameter& parameter, const Piece& piece, const std::string& axis, bool keep_value) {
  if (parameter.value_placement.piece || parameter.value_placement.axes.contains(kAxis))
    throw ConfigError(message(parameter.name, " is split along the axis ", kAxis,
                              " already, by another strategy; use one of the two"));
  const auto cut = [&](Placement& placement) {
    placement.piece = piece;
    placement.axes[axis] = AxisKind::shard;
  };
  cut(parameter.gradient_placement);
  cut(parameter.state_placement);
  if (!keep_value) cut(parameter.value_placement);
}

void add_step_needs(Plan& plan, const std::vector<GroupSize>& groups, const ShardingPolicy& policy,
                    const std::string& axis, int num_ranks) {
  const Tally step = walk_step(plan, groups, policy);
  const double share = (num_ranks - 1.0) / num_ranks;
  plan.communication.push_back(
      {axis, CLEAVE_REDUCE_SCATTER, at::kFloat, share * static_cast<double>(step.reduced)});
  plan.communication.push_back({axis, CLEAVE_ALL_GATHER, plan.parameters[0]->dtype,
                                share * static_cast<double>(step.gathered)});
  int64_t shards = 0, pieces = 0;
  for (const GroupSize& group : groups) shards += kFloatBytes * group.shard_elements;
  for (const Parameter* parameter : plan.parameters)
    pieces += kFloatBytes * parameter->state_placement.num_elements();
  const int64_t whole = step.peak_gradients - (policy.keep_gradients ? pieces : 0);
  plan.memory.push_back({"whole gradients", whole, MemoryCategory::gradients});
  plan.memory.push_back({"gathered values", step.peak_values, MemoryCategory::parameters});
  if (shards == pieces) return;
  const bool is_value = plan.parameters[0]->dtype == at::kFloat;
  plan.memory.push_back({"padding of shards", shards - pieces,
                         is_value ? MemoryCategory::parameters : MemoryCategory::master});
  if (!policy.keep_gradients)
    plan.memory.push_back(
        {"padding of gradient shards", shards - pieces, MemoryCategory::gradients});
}

}  // namespace cleave
