// plan() of a strategy that drives ShardedUnits: placements of the shards, and what a step will
// send and hold, counted before anything is allocated.
#pragma once

#include <string>
#include <vector>

#include "cleave/sharded_units.h"
#include "cleave/strategy.h"

namespace cleave {

/// A group as ShardedUnits will have it, in elements on this rank.
struct GroupSize {
  std::vector<Parameter*> parameters;
  bool keep_values;
  int64_t whole_elements;  ///< of the buffers of values and gradients, with padding
  int64_t sent_elements;   ///< brought together by a gather or a reduction
  int64_t shard_elements;  ///< with padding
  GradientBucket bucket;   ///< what its reduction exchanges
};

/// Gives this rank a piece of the parameter's gradient and states, and of its value unless that is
/// kept whole. ConfigError when the data axis cuts it already. `axis`: data, or a part of it.
void shard(Parameter& parameter, const Piece& piece, const std::string& axis, bool keep_value);

/// Writes into the plan what a step sends along `axis`, of `num_ranks` ranks, and holds beside the
/// states that the placements say.
void add_step_needs(Plan& plan, const std::vector<GroupSize>& groups, const ShardingPolicy& policy,
                    const std::string& axis, int num_ranks);

}  // namespace cleave
