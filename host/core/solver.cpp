#include "core/solver.h"

#include <c10/core/ScalarType.h>

#include <algorithm>

#include "cleave/backend.h"
#include "cleave/dtype.h"
#include "cleave/error.h"
#include "config/option_table.h"
#include "core/device.h"

namespace cleave {

namespace {

using Strategies = std::vector<PlannedStrategy>;

// Axes that the host knows; a strategy may claim further ones.
const std::vector<std::string> kKnownAxes = {"pipeline", "data", "tensor"};

bool contains(const std::vector<std::string>& list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// "run.toml:12:1: strategy <name>"
std::string side(const PlannedStrategy& strategy) {
  return message(strategy.origin.text, ": strategy ", strategy.name);
}

std::string remove_one(const PlannedStrategy& a, const PlannedStrategy& b) {
  return message("; remove [strategy.", a.name, "] or [strategy.", b.name, "]");
}

const PlannedStrategy* find_owner(const MeshAxis& axis, const Strategies& strategies) {
  const PlannedStrategy* owner = nullptr;
  for (const PlannedStrategy& strategy : strategies) {
    if (!contains(strategy.plan.claimed_axes, axis.name)) continue;
    if (owner)
      throw ConfigError(message(side(strategy), " splits the axis ", axis.name, ", and so does ",
                                side(*owner), ", but an axis has one owner",
                                remove_one(*owner, strategy)));
    owner = &strategy;
  }
  return owner;
}

void check_axis(const RunConfig& config, const Mesh& mesh, const MeshAxis& axis,
                const Strategies& strategies) {
  const PlannedStrategy* owner = find_owner(axis, strategies);
  const bool is_known = contains(kKnownAxes, axis.name);
  if (owner || (axis.size == 1 && is_known)) return;
  const std::string where = config.where("mesh." + axis.name);
  const std::string nearest = nearest_name(axis.name, kKnownAxes);
  if (!is_known)
    throw ConfigError(message(where, ": no strategy knows the axis ", axis.name,
                              nearest.empty() ? "; remove it, or add the strategy that claims it"
                                              : "; did you mean mesh." + nearest + "?"));
  throw ConfigError(message(where, ": no strategy splits the axis ", axis.name, " of size ",
                            axis.size, "; add a [strategy.<name>] table that claims it, or start ",
                            mesh.world_size() / axis.size, " ranks with ", axis.name, " = 1"));
}

void check_claims_exist(const Mesh& mesh, const PlannedStrategy& strategy) {
  for (const std::string& axis : strategy.plan.claimed_axes)
    if (!mesh.has_axis(axis))
      throw ConfigError(message(side(strategy), " splits the axis ", axis,
                                ", which [mesh] does not have; add ", axis, " = 1 or more there"));
}

void check_single_roles(const Strategies& strategies) {
  for (size_t a = 0; a < strategies.size(); ++a)
    for (size_t b = a + 1; b < strategies.size(); ++b)
      for (std::string_view role : strategies[a].single_roles)
        for (std::string_view other : strategies[b].single_roles)
          if (role == other)
            throw ConfigError(message(side(strategies[b]), " plays the role ", role,
                                      ", and so does ", side(strategies[a]), ", but a run has one",
                                      remove_one(strategies[a], strategies[b])));
}

const PlannedStrategy* who_offers(const Strategies& strategies, const std::string& capability) {
  for (const PlannedStrategy& strategy : strategies)
    if (contains(strategy.plan.offers, capability)) return &strategy;
  return nullptr;
}

void check_relations(const Strategies& strategies) {
  for (const PlannedStrategy& strategy : strategies) {
    for (const Relation& need : strategy.plan.needs)
      if (!who_offers(strategies, need.capability))
        throw ConfigError(message(side(strategy), " needs ", need.capability, " because ",
                                  need.reason, ", and no strategy of this run offers it; add one ",
                                  "that does, or remove [strategy.", strategy.name, "]"));
    for (const Relation& conflict : strategy.plan.conflicts)
      if (const PlannedStrategy* other = who_offers(strategies, conflict.capability))
        throw ConfigError(message(side(strategy), " can't run with ", conflict.capability,
                                  " because ", conflict.reason, ", and ", side(*other),
                                  " offers it", remove_one(*other, strategy)));
  }
}

void check_inner_backends(const RunConfig& config, const Mesh& mesh) {
  for (const auto& [axis, backends] : config.communication.axes) {
    const bool is_divided = mesh.has_axis(axis + ".inner");
    // along an axis of one rank no strategy does anything
    if (backends.inner_backend.empty() || is_divided || mesh.size(axis) == 1) continue;
    throw ConfigError(message(config.where("communication." + axis + ".inner_backend"), " = \"",
                              backends.inner_backend, "\", but no strategy divides the axis ", axis,
                              " into inner and outer groups; remove the key, or set the option of ",
                              "the strategy that divides the axis"));
  }
}

// Where a file names the backend of an axis that has one of its own.
std::string backend_key(const std::string& axis, const CommunicationConfig& communication) {
  const size_t dot = axis.find('.');
  const std::string whole = axis.substr(0, dot);
  const bool is_inner = dot != std::string::npos && axis.substr(dot) == ".inner" &&
                        !communication.axes.at(whole).inner_backend.empty();
  return message("[communication.", whole, is_inner ? "] inner_backend" : "] backend");
}

const PlannedBackend& backend_of(const std::string& axis, const RunConfig& config,
                                 const PlannedBackend& backend) {
  const std::string& name = config.communication.backend_of(axis).name;
  for (const PlannedBackend& other : backend.others)
    if (other.name == name) return other;
  return backend;
}

// A backend that never sees this run's memory, whatever the strategies do.
void check_device(const RunConfig& config, const PlannedBackend& backend, at::DeviceType device) {
  if (moves_memory_of(backend, device)) return;
  const std::string used = c10::DeviceTypeName(device, true);
  throw ConfigError(message(backend.origin.text, ": communication ", backend.name, " moves no ",
                            used, " memory, but ", config.where("train.device"), " is ",
                            config.train.device,
                            config.train.device == used ? "" : message(", here ", used),
                            "; use device = \"", device == at::kCUDA ? "cpu" : "cuda",
                            "\" if all backends of the run can, or another backend"));
}

void check_devices(const RunConfig& config, const Mesh& mesh, const PlannedBackend& backend,
                   at::DeviceType device) {
  check_device(config, backend, device);
  for (const MeshAxis& axis : mesh.leaf_axes())
    if (axis.size > 1) check_device(config, backend_of(axis.name, config, backend), device);
}

void check_use(const std::string& user, const CommUse& use, const RunConfig& config,
               const PlannedBackend& backend, at::DeviceType device) {
  const PlannedBackend& used = backend_of(use.axis, config, backend);
  const auto code = map_dtype(use.dtype);
  const int device_index = device == at::kCUDA ? CLEAVE_CUDA : CLEAVE_CPU;
  const uint32_t supported = used.capabilities.dtypes[device_index][use.op];
  if (code && (supported >> *code & 1u)) return;
  throw ConfigError(message(
      user, " uses ", op_name(use.op), " of ", c10::toString(use.dtype), " on ",
      c10::DeviceTypeName(device, true),
      use.axis.empty() ? " over all ranks" : message(" along the axis ", use.axis), ", which ",
      used.origin.text, ": communication ", used.name, " can't do; choose another ",
      &used == &backend ? "[communication] backend" : backend_key(use.axis, config.communication)));
}

void check_backends(const RunConfig& config, const Strategies& strategies,
                    const PlannedBackend& backend, at::DeviceType device) {
  for (const PlannedStrategy& strategy : strategies)
    for (const CommUse& use : strategy.plan.communication)
      check_use(side(strategy), use, config, backend, device);
}

bool must_follow(const PlannedStrategy& later, const PlannedStrategy& earlier) {
  return std::any_of(later.plan.after.begin(), later.plan.after.end(), [&](const auto& capability) {
    return contains(earlier.plan.offers, capability);
  });
}

// Kahn's algorithm; among those that may come next the first by name, so the order never depends on
// the order of tables or of loading.
std::vector<size_t> order(const Strategies& strategies) {
  std::vector<size_t> left(strategies.size()), sorted;
  for (size_t i = 0; i < left.size(); ++i) left[i] = i;
  std::sort(left.begin(), left.end(),
            [&](size_t a, size_t b) { return strategies[a].name < strategies[b].name; });
  while (!left.empty()) {
    const auto next = std::find_if(left.begin(), left.end(), [&](size_t candidate) {
      return std::none_of(left.begin(), left.end(), [&](size_t other) {
        return other != candidate && must_follow(strategies[candidate], strategies[other]);
      });
    });
    if (next == left.end()) {
      std::string cycle;
      for (size_t i : left) cycle += (cycle.empty() ? "" : ", ") + side(strategies[i]);
      throw ConfigError(message(cycle, ": each must come after another of them; remove [strategy.",
                                strategies[left.back()].name, "]"));
    }
    sorted.push_back(*next);
    left.erase(next);
  }
  return sorted;
}

}  // namespace

void check_one_owner(const Mesh& mesh, const Strategies& strategies) {
  for (const MeshAxis& axis : mesh.axes()) find_owner(axis, strategies);
}

std::vector<size_t> solve(const RunConfig& config, const Mesh& mesh, const Strategies& strategies,
                          const PlannedBackend& backend, at::DeviceType device) {
  for (const PlannedStrategy& strategy : strategies) check_claims_exist(mesh, strategy);
  for (const MeshAxis& axis : mesh.axes()) check_axis(config, mesh, axis, strategies);
  check_single_roles(strategies);
  check_relations(strategies);
  check_inner_backends(config, mesh);
  check_devices(config, mesh, backend, device);
  check_backends(config, strategies, backend, device);
  return order(strategies);
}

void check_host_communication(const RunConfig& config, const std::vector<CommUse>& uses,
                              const PlannedBackend& backend, at::DeviceType device) {
  for (const CommUse& use : uses) check_use("the host", use, config, backend, device);
}

}  // namespace cleave
