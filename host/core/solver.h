// Composition is solved, not listed: from what each strategy planned, whether they fit together and
// in which order they act. Pure; nothing here knows a plugin by name.
#pragma once

#include <string>
#include <vector>

#include "cleave/strategy.h"
#include "config/run_config.h"

namespace cleave {

/// A strategy and what it planned.
struct PlannedStrategy {
  std::string name;
  Origin origin;  ///< of its table
  Plan plan;
  std::vector<std::string_view> single_roles;  ///< roles it plays that one strategy may play
};

/// A communication plugin and what it can do.
struct PlannedBackend {
  std::string name;
  Origin origin;
  cleave_capabilities capabilities;
  std::vector<PlannedBackend> others = {};  ///< those that single axes have instead
};

/// ConfigError when two strategies claim one axis; with what has been planned so far.
void check_one_owner(const Mesh& mesh, const std::vector<PlannedStrategy>& strategies);

/// Throws ConfigError that names both sides, their TOML lines, the reason and a combination that
/// works: two claims on one axis, an axis larger than 1 without a claim, an unknown axis, two
/// strategies for a role that one may play, a need that nobody offers, a conflict, an operation
/// that its axis's backend lacks for dtype and device, an inner backend of an axis that nobody
/// divides, an order that contradicts itself. Returns the strategies' indices in order: each after
/// what it must come after, otherwise by name.
std::vector<size_t> solve(const RunConfig& config, const Mesh& mesh,
                          const std::vector<PlannedStrategy>& strategies,
                          const PlannedBackend& backend, at::DeviceType device);

/// The same for what the host itself submits in a run, whatever the strategies do. A use without an
/// axis is one over all ranks.
void check_host_communication(const RunConfig& config, const std::vector<CommUse>& uses,
                              const PlannedBackend& backend, at::DeviceType device);

}  // namespace cleave
