#include "core/strategies.h"

#include <algorithm>

#include "cleave/error.h"
#include "process/plugin_loader.h"

namespace cleave {

namespace {

int64_t element_bytes(at::ScalarType dtype) {
  return static_cast<int64_t>(c10::elementSize(dtype));
}

// Bytes of the model's states on this rank, from placements alone.
std::vector<MemoryItem> model_states(const std::vector<Parameter*>& parameters) {
  int64_t values = 0, masters = 0, gradients = 0, moments = 0;
  for (const Parameter* parameter : parameters) {
    values += parameter->value_placement.num_elements() * element_bytes(parameter->dtype);
    gradients += parameter->gradient_placement.num_elements() * int64_t{4};
    moments += parameter->state_placement.num_elements() * int64_t{8};
    if (parameter->dtype != at::kFloat)
      masters += parameter->state_placement.num_elements() * int64_t{4};
  }
  return {{"parameters", values},
          {"master weights", masters},
          {"gradients", gradients},
          {"optimizer states", moments}};
}

// Axes that the host knows; a strategy may claim further ones.
constexpr const char* kKnownAxes[] = {"pipeline", "data", "tensor"};

bool is_known_axis(const std::string& axis) {
  return std::find(std::begin(kKnownAxes), std::end(kKnownAxes), axis) != std::end(kKnownAxes);
}

ConfigError unclaimed(const RunConfig& config, const Mesh& mesh, const MeshAxis& axis) {
  const std::string where = config.where("mesh." + axis.name);
  const std::string nearest =
      nearest_name(axis.name, {std::begin(kKnownAxes), std::end(kKnownAxes)});
  if (!is_known_axis(axis.name))
    return ConfigError(message(where, ": no strategy knows the axis ", axis.name,
                               nearest.empty() ? "; remove it, or add the strategy that claims it"
                                               : "; did you mean mesh." + nearest + "?"));
  return ConfigError(message(where, ": no strategy splits the axis ", axis.name, " of size ",
                             axis.size, "; add a [strategy.<name>] table that claims it, or start ",
                             mesh.world_size() / axis.size, " ranks with ", axis.name, " = 1"));
}

}  // namespace

int64_t SolvedPlan::memory_bytes() const {
  int64_t total = 0;
  for (const MemoryItem& item : memory) total += item.bytes;
  return total;
}

Strategies::Strategies(const RunConfig& config) {
  for (const PluginTable& table : config.strategies) {
    const LoadedPlugin plugin = load_plugin(CLEAVE_STRATEGY, table.name, table.origin);
    const cleave_plugin& descriptor = *plugin.descriptor;
    auto options = std::make_unique<OptionValues>("strategy." + table.name, descriptor.options,
                                                  descriptor.num_options, table);
    auto* strategy = static_cast<Strategy*>(descriptor.create_strategy(options->view()));
    if (!strategy)
      throw ConfigError(message(table.origin.text, ": strategy ", table.name,
                                ": create_strategy returned nothing; rebuild ", plugin.file));
    loaded_.push_back({table.name, table.origin, std::move(options), strategy, {}});
  }
}

Strategies::~Strategies() {
  for (auto it = loaded_.rbegin(); it != loaded_.rend(); ++it) it->strategy->destroy();
}

SolvedPlan Strategies::solve(const RunConfig& config, const Mesh& mesh, int rank,
                             std::vector<UnitInfo>& units, std::vector<Parameter*>& parameters) {
  SolvedPlan solved;
  std::vector<MemoryItem> extra;
  for (Loaded& loaded : loaded_) {
    Plan plan{mesh, rank, units, parameters};
    loaded.strategy->plan(plan);
    loaded.claimed_axes = std::move(plan.claimed_axes);
    extra.insert(extra.end(), plan.memory.begin(), plan.memory.end());
    solved.wire_bytes_per_step += plan.wire_bytes_per_step;
    if (auto* reducer = role<GradientReducer>(*loaded.strategy)) {
      if (gradient_reducer_)
        throw ConfigError(message(loaded.origin.text, ": strategy ", loaded.name,
                                  " reduces gradients, and so does one before it; keep one"));
      gradient_reducer_ = reducer;
    }
  }
  check_claims(config, mesh);
  solved.memory = model_states(parameters);
  solved.memory.insert(solved.memory.end(), extra.begin(), extra.end());
  return solved;
}

void Strategies::check_claims(const RunConfig& config, const Mesh& mesh) const {
  for (const MeshAxis& axis : mesh.axes()) {
    const Loaded* owner = nullptr;
    for (const Loaded& loaded : loaded_) {
      const auto& claims = loaded.claimed_axes;
      if (std::find(claims.begin(), claims.end(), axis.name) == claims.end()) continue;
      if (owner)
        throw ConfigError(message(loaded.origin.text, ": strategies ", owner->name, " and ",
                                  loaded.name, " both claim the axis ", axis.name,
                                  "; remove one of the two tables"));
      owner = &loaded;
    }
    if (!owner && (axis.size > 1 || !is_known_axis(axis.name))) throw unclaimed(config, mesh, axis);
  }
}

void Strategies::start(const Runtime& runtime) {
  for (Loaded& loaded : loaded_) loaded.strategy->start(runtime);
}

void Strategies::quiesce() {
  for (auto it = loaded_.rbegin(); it != loaded_.rend(); ++it) it->strategy->quiesce();
}

std::vector<UnitObserver*> Strategies::unit_observers() const {
  std::vector<UnitObserver*> observers;
  for (const Loaded& loaded : loaded_)
    if (auto* observer = role<UnitObserver>(*loaded.strategy)) observers.push_back(observer);
  return observers;
}

}  // namespace cleave
