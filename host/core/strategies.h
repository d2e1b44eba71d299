// The strategies of a run: loaded, created, planned together, destroyed in reverse order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cleave/strategy.h"
#include "config/option_table.h"
#include "config/run_config.h"

namespace cleave {

/// What all strategies decided together, before anything is allocated.
struct SolvedPlan {
  std::vector<MemoryItem> memory;  ///< model states, then what strategies add
  double wire_bytes_per_step = 0;  ///< by strategies, sent by this rank
  int64_t memory_bytes() const;
};

class Strategies {
 public:
  /// Loads and creates every [strategy.<name>] of the config; ConfigError when one can't be.
  explicit Strategies(const RunConfig& config);
  ~Strategies();
  Strategies(const Strategies&) = delete;
  Strategies& operator=(const Strategies&) = delete;

  /// Runs every plan(), then checks the whole: an axis larger than 1 that nobody claims, two claims
  /// on one axis, two gradient reducers: ConfigError. Pure but for the strategies' own state.
  SolvedPlan solve(const RunConfig& config, const Mesh& mesh, int rank,
                   std::vector<UnitInfo>& units, std::vector<Parameter*>& parameters);

  void start(const Runtime& runtime);
  /// In reverse order; only after a run that ended well.
  void quiesce();

  /// nullptr when no strategy plays the role.
  GradientReducer* gradient_reducer() const { return gradient_reducer_; }
  std::vector<UnitObserver*> unit_observers() const;

 private:
  struct Loaded {
    std::string name;
    Origin origin;
    std::unique_ptr<OptionValues> options;
    Strategy* strategy;
    std::vector<std::string> claimed_axes;
  };

  void check_claims(const RunConfig& config, const Mesh& mesh) const;

  std::vector<Loaded> loaded_;
  GradientReducer* gradient_reducer_ = nullptr;
};

}  // namespace cleave
