#include "cleave/sharding_plan.h"

#include <algorithm>

#include "cleave/error.h"

namespace cleave {

namespace {

constexpr char kAxis[] = "data";
constexpr int64_t kFloatBytes = sizeof(float);

struct Amount {
  int64_t now = 0;
  int64_t peak = 0;
  std::vector<int64_t> of_visits = {};  // the most during each

  void begin_visit() { of_visits.push_back(now); }
  void add(int64_t bytes) {
    now += bytes;
    peak = std::max(peak, now);
    if (!of_visits.empty()) of_visits.back() = std::max(of_visits.back(), now);
  }
  void subtract(int64_t bytes) {
    peak -= bytes;
    for (int64_t& visit : of_visits) visit -= bytes;
  }
};

// Of one step on one rank, in bytes.
struct Tally {
  Amount values;     // gathered and alive, kept ones left out
  Amount gradients;  // whole ones
  int64_t gathered = 0;
  int64_t reduced = 0;
  int64_t num_reductions = 0;  // of all groups
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
    if (!keep_values_) tally_.values.add(value_bytes_ * size_.whole_elements);
  }
  void finish_gather() override {}
  void free_values() override { tally_.values.add(-value_bytes_ * size_.whole_elements); }
  void allocate_gradient_shards() override {}
  void allocate_gradients() override { tally_.gradients.add(kFloatBytes * size_.whole_elements); }
  void start_reduce(bool) override {
    tally_.reduced += kFloatBytes * size_.sent_elements;
    ++tally_.num_reductions;
  }
  void finish_reduce() override {}
  void free_gradients() override { tally_.gradients.add(-kFloatBytes * size_.whole_elements); }

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
  driver.finish_adding(policy, plan.units);
  const std::vector<Parameter*> order = backward_order(plan.units);
  driver.allocate_gradients(order);
  driver.weights_changed();
  for (size_t i = 0; i < plan.visits.size(); ++i) {
    const Visit& visit = plan.visits[i];
    const auto upcoming = plan.visits.subspan(i + 1);
    tally.values.begin_visit();
    tally.gradients.begin_visit();
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

// Of what is held all the time, in bytes.
struct Padding {
  int64_t values = 0;
  int64_t masters = 0;
  int64_t gradients = 0;
};

Padding padding_of(const std::vector<GroupSize>& groups, const ShardingPolicy& policy) {
  Padding padding;
  for (const GroupSize& group : groups) {
    int64_t box = 0, piece = 0;
    for (const Parameter* parameter : group.parameters) {
      box += parameter->value_placement.box.num_elements();
      piece += parameter->state_placement.num_elements();
    }
    const at::ScalarType dtype = group.parameters[0]->dtype;
    const int64_t of_shard = kFloatBytes * (group.shard_elements - piece);
    const bool keeps_values = policy.keep_values || group.keep_values;
    if (keeps_values)
      padding.values +=
          static_cast<int64_t>(c10::elementSize(dtype)) * (group.whole_elements - box);
    if (dtype != at::kFloat)
      padding.masters += of_shard;
    else if (!keeps_values)  // else the masters are a part of the values
      padding.values += of_shard;
    if (!policy.keep_gradients) padding.gradients += of_shard;
  }
  return padding;
}

int64_t state_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const Parameter* parameter : plan.parameters)
    bytes += kFloatBytes * parameter->state_placement.num_elements();
  return bytes;
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
  Tally step = walk_step(plan, groups, policy);
  const double share = (num_ranks - 1.0) / num_ranks;
  CommUse reductions{axis, CLEAVE_REDUCE_SCATTER, at::kFloat,
                     share * static_cast<double>(step.reduced)};
  for (const GroupSize& group : groups) reductions.gradient_buckets.push_back(group.bucket);
  reductions.exchanges_per_step = step.num_reductions / static_cast<int64_t>(groups.size());
  plan.communication.push_back(std::move(reductions));
  plan.communication.push_back({axis, CLEAVE_ALL_GATHER, plan.parameters[0]->dtype,
                                share * static_cast<double>(step.gathered)});
  const Padding padding = padding_of(groups, policy);
  // whole ones that are kept contain the shards, which are counted already
  if (policy.keep_gradients) step.gradients.subtract(state_bytes(plan));
  plan.memory.push_back({"whole gradients", step.gradients.peak, MemoryCategory::gradients,
                         std::move(step.gradients.of_visits)});
  plan.memory.push_back({"gathered values", step.values.peak, MemoryCategory::parameters,
                         std::move(step.values.of_visits)});
  plan.memory.push_back({"padding of parameters", padding.values, MemoryCategory::parameters});
  plan.memory.push_back({"padding of master weights", padding.masters, MemoryCategory::master});
  plan.memory.push_back({"padding of gradients", padding.gradients, MemoryCategory::gradients});
  std::erase_if(plan.memory, [](const MemoryItem& item) { return item.bytes == 0; });
}

}  // namespace cleave
