// Strategies: what is split. A strategy plugin implements Strategy and the roles that it plays; the
// host finds a role through `query`. All interfaces are draft: ids end in "/draft" and change
// together with their users until the SDK is opened to third parties. The roles are in roles.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/comm.h"
#include "cleave/gradient_exchange.h"
#include "cleave/memory.h"
#include "cleave/mesh.h"
#include "cleave/options.h"
#include "cleave/parameter.h"
#include "cleave/plugin.h"
#include "cleave/roles.h"

namespace cleave {

/// Bytes that a strategy will hold on this rank beyond what the placements say, for the memory
/// prediction.
struct MemoryItem {
  std::string what;  ///< "padding of gradient buckets"
  int64_t bytes;     ///< the most, where it varies over a step
  MemoryCategory category = MemoryCategory::communication;
  /// The most during each of Plan::visits; empty: `bytes` all the time.
  std::vector<int64_t> of_visits = {};
};

/// A collective that a strategy submits in every step. The solver asks the backend for it before
/// anything starts, and the host prints its bytes.
struct CommUse {
  std::string axis;  ///< or a part of a divided one: "data.inner"
  cleave_op op;
  at::ScalarType dtype;
  double wire_bytes_per_step;  ///< sent by this rank
  /// Where this is a GradientExchange: what goes through it, and how often a step each bucket does.
  /// A GradientTransformer replaces such a use by its own.
  std::vector<GradientBucket> gradient_buckets = {};
  int64_t exchanges_per_step = 1;
};

/// Something that another strategy must, or must not, offer, and why, for the message.
struct Relation {
  std::string capability;  ///< "gradient-sync.deferrable"; one's own are "<plugin>.<word>"
  std::string reason;      ///< completes "because ..."
};

/// Of one micro-batch.
struct MicroBatchShape {
  int64_t sequences;
  int64_t tokens;  ///< of a sequence
  int64_t features;
  int64_t ranks = 1;  ///< that share it (sequence parallel)

  /// Of an activation between units: (B, T, C), or its rows in equal parts.
  std::vector<int64_t> activation() const {
    if (ranks == 1) return {sequences, tokens, features};
    return {1, sequences * tokens / ranks, features};
  }
  int64_t activation_elements() const { return sequences * tokens / ranks * features; }
};

/// What the host knows before anything is allocated; a strategy reads it and writes its decisions.
/// Pure: the same for every process that asks, so any world size can be checked in one process.
struct Plan {
  const Mesh& mesh;
  int rank;
  std::vector<UnitInfo>& units;         ///< of this rank, in forward order (partition(): of all)
  std::vector<Parameter*>& parameters;  ///< that those use; strategies write the placements
  std::span<const Visit> visits = {};   ///< of a step, in order
  int64_t num_micro_batches = 1;        ///< of a step
  MicroBatchShape shape = {};

  std::vector<std::string> claimed_axes = {};  ///< split by this strategy alone
  int64_t activation_ranks = 1;  ///< a Partitioner that cuts MicroBatchShape says it here
  /// Axes to divide (Mesh::divide), by the size of the inner groups. Only a claimed axis, or that
  /// along which a GradientTransformer replaces sums.
  std::map<std::string, int> divided_axes = {};
  std::vector<std::string> offers = {};  ///< capabilities that others may need
  std::vector<Relation> needs = {};      ///< offered by some strategy of the run
  std::vector<Relation> conflicts = {};  ///< offered by none
  /// This strategy comes after those that offer one of these: in every list that the host walks,
  /// and inside them where roles stack.
  std::vector<std::string> after = {};
  std::vector<CommUse> communication = {};
  std::vector<MemoryItem> memory = {};
};

/// What the host lends a strategy after the plan is accepted. Valid until quiesce().
struct Runtime {
  const Mesh& mesh;
  int rank;
  at::Device device;
  std::vector<UnitInfo>& units;
  std::vector<Parameter*>& parameters;
  /// Communicator along an axis that the strategy claimed or named in Plan::communication (else
  /// RuntimeError), or a part of it; groups of one rank exist too.
  std::function<Comm&(std::string_view axis)> comm;
  /// For the GradientReducer, from allocate_gradients on. A reducer that uses it, not Comm, offers
  /// "gradients.exchanged".
  GradientExchange* gradients = nullptr;
};

/// Life: create -> plan -> start -> steps -> quiesce -> destroy, all on the rank's main thread, in
/// reverse order of creation at the end.
class Strategy {
 public:
  /// Claims axes, writes placements, states memory and bytes; throws ConfigError to refuse.
  virtual void plan(Plan& plan) = 0;
  /// May allocate and communicate (collective); throws ConfigError to refuse what shows only here,
  /// on all ranks.
  virtual void start(const Runtime& runtime) = 0;
  /// The interface with this id, or nullptr; stable over the strategy's life.
  virtual void* query(std::string_view interface_id) = 0;
  /// Waits for what is open and drops tensors and works. Not called after a failed run.
  virtual void quiesce() = 0;
  /// Frees the object with the allocator that made it; never communicates.
  virtual void destroy() = 0;

 protected:
  ~Strategy() = default;
};

/// Typed query: `role<GradientReducer>(strategy)`, nullptr when the strategy does not play it.
template <typename Role>
Role* role(Strategy& strategy) {
  return static_cast<Role*>(strategy.query(Role::kInterface));
}

/// The descriptor to hand to CLEAVE_EXPORT_PLUGIN, with magic, sizes, versions and ABI filled in.
/// `T` is a Strategy that is constructed from `const cleave_options*`.
template <typename T>
constexpr cleave_plugin strategy_plugin(std::string_view name, std::string_view version,
                                        const cleave_option* options = nullptr,
                                        uint32_t num_options = 0) {
  cleave_plugin plugin = {};
  plugin.identity = make_identity(CLEAVE_STRATEGY, name, version, this_abi());
  plugin.num_options = num_options;
  plugin.options = options;
  plugin.create_strategy = [](const cleave_options* values) -> void* {
    return static_cast<Strategy*>(new T(values));
  };
  return plugin;
}

}  // namespace cleave
