#include "cleave/sharded_units.h"

#include <algorithm>

namespace cleave {

namespace {

bool uses(const std::vector<int>& units, const Visit& visit) {
  return std::find(units.begin(), units.end(), visit.unit->index) != units.end();
}

// Whether values outlive a visit: the next one needs them too, or the policy keeps them until the
// step's last.
bool stays(const std::vector<int>& units, const ShardingPolicy& policy,
           std::span<const Visit> upcoming) {
  const size_t horizon =
      policy.keep_after_forward ? upcoming.size() : std::min<size_t>(1, upcoming.size());
  return std::any_of(upcoming.begin(), upcoming.begin() + horizon,
                     [&](const Visit& visit) { return uses(units, visit); });
}

}  // namespace

void ShardedUnits::add(std::unique_ptr<ShardGroup> group, bool keep_values) {
  entries_.push_back({std::move(group), keep_values});
}

void* ShardedUnits::query(std::string_view id) {
  if (id == GradientReducer::kInterface) return static_cast<GradientReducer*>(this);
  if (id == ParameterSharder::kInterface) return static_cast<ParameterSharder*>(this);
  if (id == OptimizerBinder::kInterface) return static_cast<OptimizerBinder*>(this);
  return nullptr;
}

void ShardedUnits::finish_adding(const ShardingPolicy& policy, const std::vector<UnitInfo>& units) {
  policy_ = policy;
  of_unit_.resize(units.back().index + 1);
  for (size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].keep_values |= policy.keep_values;
    for (const Parameter* parameter : entries_[i].group->parameters()) {
      of_parameter_.resize(std::max<size_t>(of_parameter_.size(), parameter->index + 1));
      of_parameter_[parameter->index] = i;
      for (int unit : parameter->units)
        if (of_unit_[unit].empty() || of_unit_[unit].back() != i) {
          of_unit_[unit].push_back(i);
          entries_[i].units.push_back(unit);
        }
    }
  }
}

void ShardedUnits::allocate_weights(const std::vector<Parameter*>&) {
  for (Entry& entry : entries_) entry.group->allocate_weights();
}

// Groups stand in backward order; the next forward needs the last one first.
void ShardedUnits::weights_changed() {
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry)
    if (entry->keep_values) {
      entry->values = Values::freed;
      start_gather(*entry);
    }
}

void ShardedUnits::start_gather(Entry& entry) {
  if (entry.values != Values::freed) return;
  entry.group->start_gather();
  entry.values = Values::gathering;
  if (!policy_.overlap) finish_gather(entry);
}

void ShardedUnits::finish_gather(Entry& entry) {
  if (entry.values != Values::gathering) return;
  entry.group->finish_gather();
  entry.values = Values::whole;
}

void ShardedUnits::unshard(const Visit& visit, std::span<const Visit> upcoming) {
  for (size_t i : of_unit_[visit.unit->index]) start_gather(entries_[i]);
  const size_t ahead = std::min<size_t>(policy_.overlap ? policy_.prefetch : 0, upcoming.size());
  for (const Visit& next : upcoming.first(ahead))
    for (size_t i : of_unit_[next.unit->index]) start_gather(entries_[i]);
  for (size_t i : of_unit_[visit.unit->index]) finish_gather(entries_[i]);
}

void ShardedUnits::reshard(const Visit& visit, std::span<const Visit> upcoming) {
  for (size_t i : of_unit_[visit.unit->index]) {
    Entry& entry = entries_[i];
    if (entry.keep_values || stays(entry.units, policy_, upcoming)) continue;
    entry.group->free_values();
    entry.values = Values::freed;
  }
}

void ShardedUnits::allocate_gradients(const std::vector<Parameter*>&) {
  for (Entry& entry : entries_) {
    entry.group->allocate_gradient_shards();
    if (policy_.keep_gradients) entry.group->allocate_gradients();
  }
}

void ShardedUnits::provide_gradients(const UnitInfo& unit) {
  for (size_t i : of_unit_[unit.index]) {
    Entry& entry = entries_[i];
    if (entry.gradients == Gradients::filling) continue;
    if (entry.gradients == Gradients::reducing) finish_reduce(entry);
    // one may still be on its way while this one fills
    while (!policy_.keep_gradients && reducing_.size() > 1) finish_reduce(entries_[reducing_[0]]);
    if (!policy_.keep_gradients) entry.group->allocate_gradients();
    entry.gradients = Gradients::filling;
  }
}

void ShardedUnits::gradient_ready(Parameter& parameter, bool is_last) {
  Entry& entry = entries_[of_parameter_[parameter.index]];
  if (++entry.num_ready < entry.group->parameters().size()) return;
  entry.num_ready = 0;
  if (is_last || policy_.reduce_each) start_reduce(entry, is_last);
}

void ShardedUnits::start_reduce(Entry& entry, bool is_last) {
  entry.group->start_reduce(entry.next_reduce_first);
  entry.next_reduce_first = is_last;
  entry.gradients = Gradients::reducing;
  for (Parameter* parameter : entry.group->parameters()) parameter->gradient_is_stale = true;
  reducing_.push_back(static_cast<size_t>(&entry - entries_.data()));
  if (!policy_.overlap) finish_reduce(entry);
}

void ShardedUnits::finish_reduce(Entry& entry) {
  entry.group->finish_reduce();
  if (!policy_.keep_gradients) entry.group->free_gradients();
  entry.gradients = Gradients::freed;
  std::erase(reducing_, static_cast<size_t>(&entry - entries_.data()));
  if (!entry.next_reduce_first) return;
  entry.group->start_replica_sum();
  if (!policy_.overlap) entry.group->finish_replica_sum();
}

void ShardedUnits::finish_gradients() {
  while (!reducing_.empty()) finish_reduce(entries_[reducing_[0]]);
  for (Entry& entry : entries_) entry.group->finish_replica_sum();
}

void ShardedUnits::quiesce() {
  for (Entry& entry : entries_) finish_gather(entry);
  entries_.clear();
}

}  // namespace cleave
