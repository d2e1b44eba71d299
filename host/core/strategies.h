// The strategies of a run: loaded, created, planned together, called in solved order, destroyed in
// reverse.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cleave/strategy.h"
#include "config/option_table.h"
#include "config/run_config.h"
#include "core/agreement.h"
#include "core/exchange_stack.h"
#include "core/guarded_roles.h"
#include "core/solver.h"

namespace cleave {

/// What all strategies decided together, before anything is allocated.
struct SolvedPlan {
  struct Use {
    std::string strategy;
    CommUse use;
  };
  std::vector<std::string> order;  ///< strategies' names as the host walks them
  std::vector<Use> communication;
  std::vector<std::string> lossy;  ///< strategies that offer "gradients.lossy"
  /// Alive in a step: model states, what strategies add, activations.
  std::vector<MemoryItem> memory;
  /// Alive before the first step only, beside a part of the states.
  std::vector<MemoryItem> initial_memory;

  /// The most that a category holds at any moment.
  int64_t memory_bytes(MemoryCategory category) const;
  /// The most that all categories hold together.
  int64_t memory_bytes() const;
  double wire_bytes_per_step() const;
};

class Strategies {
 public:
  /// Loads and creates every [strategy.<name>] of the config; ConfigError when one can't be.
  explicit Strategies(const RunConfig& config);
  ~Strategies();
  Strategies(const Strategies&) = delete;
  Strategies& operator=(const Strategies&) = delete;

  /// What there is to plan; outlives both calls below. Strategies may divide axes of the mesh.
  struct Planned {
    const RunConfig& config;
    Mesh& mesh;
    int rank;
    std::vector<UnitInfo>& units;
    std::vector<Parameter*>& parameters;
    std::span<const Visit> visits;
    int64_t num_micro_batches;
    MicroBatchShape& shape;
  };
  /// Lets those that cut the model decide how.
  void partition(Planned& run);
  /// Then, with `run`'s lists reduced to this rank's part, every plan(), then the solver
  /// (solver.h). ConfigError when they don't fit together.
  SolvedPlan solve(Planned& run, const PlannedBackend& backend);
  /// nullptr when no strategy plays the role; from its creation on.
  Scheduler* scheduler() const;

  /// Starts each with what it may use, then collects the roles below.
  void start(const Runtime& runtime);
  /// In reverse order; only after a run that ended well.
  void quiesce();
  /// In reverse order, after the communicators are finalized; so that a strategy that communicates
  /// in destroy() is a RuntimeError with its name. The destructor does it for a run that failed.
  void destroy();

  /// Of each strategy's build and options.
  std::vector<Fingerprint> fingerprints() const;

  /// nullptr when no strategy plays the role.
  GradientReducer* gradient_reducer() const { return reducer_.get(); }
  ParameterSharder* parameter_sharder() const { return sharder_.get(); }
  OptimizerBinder* optimizer_binder() const { return binder_.get(); }
  const std::vector<std::unique_ptr<GuardedObserver>>& observers() const { return observers_; }
  /// Innermost first.
  const std::vector<std::unique_ptr<GuardedStepWrapper>>& step_wrappers() const {
    return step_wrappers_;
  }
  /// The strategies that have state of their own, with their names; from solve() on.
  std::vector<std::pair<std::string, ExtraState*>> extra_states() const;
  /// `ops` as the strategies rewrote it.
  Ops& rewrite(Ops& ops);

 private:
  struct Destroy {
    void operator()(Strategy* strategy) const noexcept;
  };
  struct Loaded {
    std::string name;
    Origin origin;
    Fingerprint fingerprint;
    std::unique_ptr<OptionValues> options;
    std::unique_ptr<Strategy, Destroy> strategy;
    std::vector<std::string> axes;                  ///< that it may communicate along
    std::optional<Runtime> runtime = std::nullopt;  ///< what start() lent it, until quiesce()
  };

  /// Lets transformers of gradients replace what reducers exchange; whether anything was replaced.
  bool transform_exchanges(std::vector<PlannedStrategy>& planned, const std::vector<size_t>& order);

  std::vector<PlannedStrategy> planned_;  // between partition() and the end of solve()
  std::vector<Loaded> loaded_;            // in solved order after solve()
  ExchangeStack exchanges_;
  std::unique_ptr<GuardedReducer> reducer_;
  std::unique_ptr<GuardedSharder> sharder_;
  std::unique_ptr<GuardedBinder> binder_;
  std::vector<std::unique_ptr<GuardedObserver>> observers_;
  std::vector<std::unique_ptr<GuardedStepWrapper>> step_wrappers_;
};

}  // namespace cleave
