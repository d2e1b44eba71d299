// Fully sharded data parallel (Zhao et al. 2023, arXiv:2304.11277; here per parameter, on dim 0):
// each rank of the data axis holds some rows of every parameter, gradient and optimizer state; a
// unit's parameters are whole only while it runs. Hybrid: rows are shared inside groups of
// shard_size neighbours, and the groups hold equal rows.
//
// P parameters, N ranks on the axis, S = shard_size (N when 0), G micro-batches, v bytes a value (4
// float32, 2 bfloat16).
// Bytes kept per rank, float32: 16 P/S; the values of 1 + prefetch_units units; the gradients of
//   two units, one filling while one is reduced. bfloat16 keeps float32 masters and gradients, 16
//   P/S too, and gathers 2 bytes a value. reshard_after_forward = "false": v P values in a step.
//   accumulation = "reduce-once": 4 P gradients in a step.
// Bytes sent per rank and step:
//   inside a group     (S-1)/S P x
//     values             at most 2 v G: gathered for forward, again for backward; not again where
//                        the next unit to run is the same one (the last unit, and the first between
//                        micro-batches). reshard_after_forward = "false": v
//     gradients          4 G; reduce-once: 4
//   between groups     8 (N/S-1)/(N/S) P/S, an all-reduce of the rank's gradients once a step
// No padding is sent: rows divide unevenly as in torch.chunk, and the last ranks may hold none. A
// tied weight's gradient is whole from its first to its last use in a backward.
#include "cleave/error.h"
#include "cleave/sharding_plan.h"
#include "row_group.h"

namespace cleave {
namespace {

constexpr char kAxis[] = "data";
constexpr char kShards[] = "data.inner";
constexpr char kReplicas[] = "data.outer";

std::string divisors(int number) {
  std::string text;
  for (int i = 1; i <= number; ++i)
    if (number % i == 0) text += (i == 1 ? "" : i == number ? " or " : ", ") + std::to_string(i);
  return text;
}

class Fsdp final : public Strategy {
 public:
  explicit Fsdp(const cleave_options* values) {
    const Options options(values);
    reshard_after_forward_ = options.text("reshard_after_forward");
    shard_size_ = static_cast<int>(options.integer("shard_size"));
    policy_.reduce_each = options.text("accumulation") == "reduce-each";
    policy_.prefetch = static_cast<int>(options.integer("prefetch_units"));
    policy_.overlap = options.flag("overlap");
  }

  void plan(Plan& plan) override {
    plan.claimed_axes = {kAxis};
    plan.offers = {"gradients.sharded", "gradients.exchanged"};
    num_ranks_ = plan.mesh.size(kAxis);
    if (num_ranks_ == 1) return;
    divide(plan);
    if (is_hybrid()) plan.offers.push_back("gradients.hybrid");
    // a schedule that visits a unit for one micro-batch after the other would gather it each time
    policy_.keep_after_forward =
        reshard_after_forward_ == "false" ||
        (reshard_after_forward_ == "auto" && plan.mesh.size("pipeline") > 1);
    groups_ = make_groups(plan.units);
    std::vector<GroupSize> sizes;
    for (const auto& group : groups_) sizes.push_back(place(group, plan));
    add_step_needs(plan, sizes, policy_, shard_axis(), num_shards_);
    if (is_hybrid()) add_replica_sum(plan, sizes);
  }

  void start(const Runtime& runtime) override {
    if (num_ranks_ == 1) return;
    Comm& shards = runtime.comm(shard_axis());
    Comm* replicas = is_hybrid() ? &runtime.comm(kReplicas) : nullptr;
    for (const auto& group : groups_)
      units_.add(
          std::make_unique<RowGroup>(group, shards, replicas, *runtime.gradients, runtime.device),
          false);
    units_.finish_adding(policy_, runtime.units);
  }

  void* query(std::string_view id) override { return num_ranks_ == 1 ? nullptr : units_.query(id); }

  void quiesce() override { units_.quiesce(); }
  void destroy() override { delete this; }

 private:
  bool is_hybrid() const { return num_shards_ < num_ranks_; }
  const char* shard_axis() const { return is_hybrid() ? kShards : kAxis; }

  void divide(Plan& plan) {
    num_shards_ = shard_size_ == 0 ? num_ranks_ : shard_size_;
    if (num_shards_ > num_ranks_ || num_ranks_ % num_shards_ != 0)
      throw ConfigError(message("shard_size = ", shard_size_, " does not divide the axis ", kAxis,
                                " of size ", num_ranks_, "; use ", divisors(num_ranks_)));
    if (is_hybrid()) plan.divided_axes = {{kAxis, num_shards_}};
  }

  void add_replica_sum(Plan& plan, const std::vector<GroupSize>& sizes) const {
    int64_t bytes = 0;
    for (const GroupSize& size : sizes) bytes += int64_t{sizeof(float)} * size.shard_elements;
    const double share = 1.0 - static_cast<double>(num_shards_) / num_ranks_;
    plan.communication.push_back(
        {kReplicas, CLEAVE_ALL_REDUCE, at::kFloat, 2 * share * static_cast<double>(bytes)});
  }

  // A unit each, in the order in which gradients get ready; tied weights alone, because their
  // gradient takes the whole backward.
  static std::vector<std::vector<Parameter*>> make_groups(const std::vector<UnitInfo>& units) {
    std::vector<std::vector<Parameter*>> groups;
    for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
      std::vector<Parameter*> own;
      for (Parameter* parameter : backward_order({*unit}))
        if (!parameter->is_tied)
          own.push_back(parameter);
        else
          groups.push_back({parameter});
      if (!own.empty()) groups.push_back(own);
    }
    return groups;
  }

  GroupSize place(const std::vector<Parameter*>& group, const Plan& plan) const {
    const int rank = plan.mesh.coordinate(plan.rank, kAxis) % num_shards_;
    const RowLayout layout(group, num_shards_, rank);
    for (size_t i = 0; i < group.size(); ++i)
      shard(*group[i], layout.slices[i].rows, shard_axis(), /*keep_value=*/false);
    return {group,
            false,
            layout.whole.elements,
            layout.sent_elements,
            layout.shard_elements,
            layout.exchanged()};
  }

  std::string reshard_after_forward_;
  int shard_size_;
  int num_ranks_ = 1;   // of the axis
  int num_shards_ = 1;  // ranks that share the rows
  ShardingPolicy policy_;
  std::vector<std::vector<Parameter*>> groups_;
  ShardedUnits units_;
};

constexpr cleave_option kOptions[] = {
    {"reshard_after_forward", CLEAVE_OPTION_ENUM, "\"auto\"", 0, 0, "true|false|auto", "",
     "true: drop a unit's values after its forward and gather them again for backward; false: keep "
     "them until the step's last use; auto: false under pipeline, else true",
     0},
    {"shard_size", CLEAVE_OPTION_INT, "0", 0, 1e6, nullptr, "ranks",
     "neighbours that share the rows; such groups hold equal rows and sum gradients once a step "
     "(hybrid, for slow links between nodes); must divide the axis; 0: the whole axis",
     0},
    {"accumulation", CLEAVE_OPTION_ENUM, "\"reduce-each\"", 0, 0, "reduce-each|reduce-once", "",
     "gradients of several micro-batches: reduce-each shards them at once, reduce-once keeps them "
     "whole and sends less",
     0},
    {"prefetch_units", CLEAVE_OPTION_INT, "1", 0, 64, nullptr, "units",
     "units whose parameters are gathered ahead", 0},
    {"overlap", CLEAVE_OPTION_BOOL, "true", 0, 0, nullptr, "",
     "communicate while computing; false: wait for each operation at once", 0},
};

constexpr cleave_plugin kPlugin =
    strategy_plugin<Fsdp>("fsdp", "0.1.0", kOptions, std::size(kOptions));

}  // namespace
}  // namespace cleave

CLEAVE_EXPORT_PLUGIN(cleave::kPlugin)
