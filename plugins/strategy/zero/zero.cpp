// ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054): the ranks of the data axis share what each of
// them would hold alike: stage 1 the optimizer states, 2 the gradients too, 3 the parameters too.
//
// P parameters, N ranks on the axis, G micro-batches, v bytes a value (4 float32, 2 bfloat16).
// Bytes kept per rank, float32:
//   stage 1   8 P + 8 P/N     values 4 P, gradients 4 P; master = value
//   stage 2   4 P + 12 P/N    and two buckets of gradients, one filling while one is reduced; a
//                             third where other axes sum some gradients, which have their own
//   stage 3   16 P/N          and that, and the values of 1 + prefetch_units units
//   bfloat16 adds the float32 masters, 4 P/N, and halves values (stage 3: gathered ones only).
// Bytes sent per rank and step, in units of (N-1)/N P:
//   stage 1   4 + v             one reduce-scatter, one all-gather of the new values
//   stage 2   4 G + v           accumulation = "reduce-each"; reduce-once: 4 + v, and 4 P gradients
//   stage 3   at most (4 + 2 v) G: gathered for forward, again for backward; not again where the
//             next unit to run is the same one (the last unit, and the first between micro-batches)
// Shards are padded to 64 bytes per bucket. A tied weight's gradient is whole from its first to its
// last use in a backward.
#include <algorithm>

#include "cleave/error.h"
#include "cleave/sharding_plan.h"
#include "flat_group.h"

namespace cleave {
namespace {

constexpr char kAxis[] = "data";
constexpr int64_t kMiB = 1 << 20;

struct Group {
  std::vector<Parameter*> parameters;
  bool keep_values;
};

class Zero final : public Strategy {
 public:
  explicit Zero(const cleave_options* values) {
    const Options options(values);
    stage_ = options.integer("stage");
    bucket_bytes_ = options.bytes("bucket_bytes");
    persistence_threshold_ = options.integer("persistence_threshold");
    const std::string_view accumulation = options.text("accumulation");
    if (stage_ == 1 && accumulation == "reduce-each")
      throw ConfigError(
          "accumulation = \"reduce-each\" saves no memory in stage 1, which keeps all gradients; "
          "use stage = 2, or leave accumulation out");
    policy_.keep_values = stage_ < 3;
    policy_.keep_gradients = stage_ == 1;
    policy_.reduce_each = stage_ > 1 && accumulation != "reduce-once";
    policy_.prefetch = static_cast<int>(options.integer("prefetch_units"));
    policy_.overlap = options.flag("overlap");
  }

  void plan(Plan& plan) override {
    plan.claimed_axes = {kAxis};
    plan.offers = {"gradients.sharded", "gradients.exchanged"};
    ranks_ = plan.mesh.size(kAxis);
    if (ranks_ == 1) return;
    groups_ = make_groups(plan.units);
    std::vector<GroupSize> sizes;
    for (const Group& group : groups_) sizes.push_back(place(group, plan));
    add_step_needs(plan, sizes, policy_, kAxis, ranks_);
  }

  void start(const Runtime& runtime) override {
    if (ranks_ == 1) return;
    Comm& comm = runtime.comm(kAxis);
    for (const Group& group : groups_) {
      const FlatKeeps keeps{policy_.keep_values || group.keep_values, policy_.keep_gradients};
      units_.add(std::make_unique<FlatGroup>(group.parameters, keeps, comm, *runtime.gradients,
                                             runtime.device),
                 group.keep_values);
    }
    units_.finish_adding(policy_, runtime.units);
  }

  void* query(std::string_view id) override { return ranks_ == 1 ? nullptr : units_.query(id); }

  void quiesce() override { units_.quiesce(); }
  void destroy() override { delete this; }

 private:
  // Gradients that ranks of another axis sum after this one must be cut alike there, so they are
  // apart from parameters of which those ranks hold different sizes.
  std::vector<Group> make_groups(const std::vector<UnitInfo>& units) const {
    std::vector<Group> groups = pack(units, /*partial=*/false);
    for (Group& group : pack(units, /*partial=*/true)) groups.push_back(std::move(group));
    return groups;
  }

  // In the order in which gradients get ready: whole units, packed into buckets below stage 3; tied
  // weights alone, because their gradient takes the whole backward; small ones together.
  std::vector<Group> pack(const std::vector<UnitInfo>& units, bool partial) const {
    std::vector<Group> groups;
    std::vector<Parameter*> small;
    int64_t total = 0;
    for (Parameter* parameter : backward_order(units))
      if (is_partial(*parameter) == partial) total += bytes_of(*parameter);
    const int64_t bucket_bytes =
        bucket_bytes_ > 0 ? bucket_bytes_ : std::clamp(total / 16, kMiB, 25 * kMiB);
    int64_t open_bytes = -1;  // of the last group, while more may be added
    for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
      std::vector<Parameter*> own;
      int64_t bytes = 0;
      for (Parameter* parameter : backward_order({*unit})) {
        if (is_partial(*parameter) != partial) continue;
        if (parameter->is_tied) {
          groups.push_back({{parameter}, false});
          open_bytes = -1;
        } else if (stage_ == 3 && parameter->num_elements() <= persistence_threshold_) {
          small.push_back(parameter);
        } else {
          own.push_back(parameter);
          bytes += bytes_of(*parameter);
        }
      }
      if (own.empty()) continue;
      if (stage_ < 3 && open_bytes >= 0 && open_bytes + bytes <= bucket_bytes) {
        auto& last = groups.back().parameters;
        last.insert(last.end(), own.begin(), own.end());
        open_bytes += bytes;
      } else {
        groups.push_back({own, false});
        open_bytes = bytes;
      }
    }
    if (!small.empty()) groups.push_back({small, true});
    return groups;
  }

  static bool is_partial(const Parameter& parameter) {
    const auto& axes = parameter.gradient_placement.axes;
    return std::any_of(axes.begin(), axes.end(),
                       [](const auto& axis) { return axis.second == AxisKind::partial; });
  }

  static int64_t bytes_of(const Parameter& parameter) {
    return parameter.value_placement.box.num_elements() * int64_t{sizeof(float)};
  }

  GroupSize place(const Group& group, Plan& plan) const {
    const FlatLayout layout(group.parameters, ranks_);
    const int rank = plan.mesh.coordinate(plan.rank, kAxis);
    for (const BucketSlice& slice : layout.bucket.slices)
      shard(*slice.parameter, layout.piece(slice, rank), kAxis,
            policy_.keep_values || group.keep_values);
    return {group.parameters,  group.keep_values,     layout.elements(),
            layout.elements(), layout.shard_elements, layout.exchanged()};
  }

  int64_t stage_;
  int64_t bucket_bytes_;
  int64_t persistence_threshold_;
  ShardingPolicy policy_;
  int ranks_ = 1;
  std::vector<Group> groups_;
  ShardedUnits units_;
};

constexpr cleave_option kOptions[] = {
    {"stage", CLEAVE_OPTION_INT, "1", 1, 3, nullptr, "",
     "what is sharded: 1 optimizer states, 2 gradients too, 3 parameters too", 0},
    {"bucket_bytes", CLEAVE_OPTION_BYTES, "0", 0, 1e12, nullptr, "bytes",
     "stage 1, 2: units are reduced together up to this size of gradients; 0: a sixteenth of all, "
     "between 1 MiB and 25 MiB",
     0},
    {"accumulation", CLEAVE_OPTION_ENUM, "\"auto\"", 0, 0, "auto|reduce-each|reduce-once", "",
     "gradients of several micro-batches: reduce-each shards them at once, reduce-once keeps them "
     "whole and sends less; auto: reduce-once in stage 1, else reduce-each",
     0},
    {"prefetch_units", CLEAVE_OPTION_INT, "1", 0, 64, nullptr, "units",
     "stage 3: units whose parameters are gathered ahead", 0},
    {"persistence_threshold", CLEAVE_OPTION_INT, "0", 0, 1e12, nullptr, "elements",
     "stage 3: parameters up to this size stay whole and are gathered once a step", 0},
    {"overlap", CLEAVE_OPTION_BOOL, "true", 0, 0, nullptr, "",
     "communicate while computing; false: wait for each operation at once", 0},
};

constexpr cleave_plugin kPlugin =
    strategy_plugin<Zero>("zero", "0.1.0", kOptions, std::size(kOptions));

}  // namespace
}  // namespace cleave

CLEAVE_EXPORT_PLUGIN(cleave::kPlugin)
