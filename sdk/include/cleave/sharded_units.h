// What ZeRO and FSDP share: parameters in groups, of which every rank holds a shard; values are
// gathered ahead of use and freed after it, gradients reduce-scattered while backward still runs.
// How a group is cut into shards is the strategy's (ShardGroup).
#pragma once

#include <memory>
#include <vector>

#include "cleave/roles.h"

namespace cleave {

/// Parameters that are gathered and reduced together. Implementations allocate, communicate and
/// bind views; when is decided by ShardedUnits. All ranks make the same calls in the same order.
class ShardGroup {
 public:
  explicit ShardGroup(std::vector<Parameter*> parameters) : parameters_(std::move(parameters)) {}
  virtual ~ShardGroup() = default;

  const std::vector<Parameter*>& parameters() const { return parameters_; }

  /// Sets `master` of each parameter, and `value` where values are kept all the time.
  virtual void allocate_weights() = 0;
  /// Starts to bring the values together from the masters, into memory of its own unless they are
  /// kept.
  virtual void start_gather() = 0;
  /// Waits for it; `value` is set.
  virtual void finish_gather() = 0;
  /// Drops the values.
  virtual void free_values() = 0;

  /// Sets `reduced_gradient` of each parameter.
  virtual void allocate_gradient_shards() = 0;
  /// Sets `gradient` of each parameter; content undefined.
  virtual void allocate_gradients() = 0;
  /// Starts the sum of `gradient` over the ranks. `is_first`: of the step, nothing to add to.
  virtual void start_reduce(bool is_first) = 0;
  /// Waits for it and adds it to the shards.
  virtual void finish_reduce() = 0;
  virtual void free_gradients() = 0;

  /// After a step's last reduction of this group: starts the sum of the shards over ranks that hold
  /// equal ones, where there are any.
  virtual void start_replica_sum() {}
  /// Waits for it.
  virtual void finish_replica_sum() {}

 private:
  std::vector<Parameter*> parameters_;
};

struct ShardingPolicy {
  bool keep_values = false;         ///< whole all the time, gathered once after an update
  bool keep_gradients = false;      ///< whole all the time
  bool keep_after_forward = false;  ///< values stay from a unit's first to its last visit of a step
  bool reduce_each = true;  ///< each micro-batch's gradients; else kept whole and reduced once
  int prefetch = 1;         ///< visits ahead of which values are gathered
  bool overlap = true;      ///< false: communication ends before anything else goes on
};

/// Drives the groups. Alive at the same time, besides the shards: values of 1 + prefetch visits,
/// and gradients of two groups (one fills, one is being reduced).
class ShardedUnits final : public GradientReducer, public ParameterSharder, public OptimizerBinder {
 public:
  /// A group with `keep_values` is kept whatever the policy says (small parameters).
  void add(std::unique_ptr<ShardGroup> group, bool keep_values);
  /// The roles that it plays, for Strategy::query.
  void* query(std::string_view interface_id);
  /// After the last add().
  void finish_adding(const ShardingPolicy& policy, const std::vector<UnitInfo>& units);

  void allocate_weights(const std::vector<Parameter*>& parameters) override;
  void weights_changed() override;
  void unshard(const Visit& visit, std::span<const Visit> upcoming) override;
  void reshard(const Visit& visit, std::span<const Visit> upcoming) override;
  void allocate_gradients(const std::vector<Parameter*>& backward_order) override;
  void provide_gradients(const UnitInfo& unit) override;
  void gradient_ready(Parameter& parameter, bool is_last) override;
  void finish_gradients() override;

  /// Waits for what is open and drops all tensors.
  void quiesce();

 private:
  enum class Values { freed, gathering, whole };
  enum class Gradients { freed, filling, reducing };
  struct Entry {
    std::unique_ptr<ShardGroup> group;
    bool keep_values;
    std::vector<int> units = {};  // that use it, ascending
    Values values = Values::freed;
    Gradients gradients = Gradients::freed;
    size_t num_ready = 0;           // in this micro-batch
    bool next_reduce_first = true;  // of a step; so the one before is a step's last
  };

  void start_gather(Entry& entry);
  void finish_gather(Entry& entry);
  void start_reduce(Entry& entry, bool is_last);
  void finish_reduce(Entry& entry);

  ShardingPolicy policy_;
  std::vector<Entry> entries_;                // in the order in which gradients get ready
  std::vector<std::vector<size_t>> of_unit_;  // entries, by unit index
  std::vector<size_t> of_parameter_;          // entry, by Parameter::index
  std::vector<size_t> reducing_;              // entries, oldest first
};

}  // namespace cleave
