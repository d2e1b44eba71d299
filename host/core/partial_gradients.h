// Gradients that are terms of a sum over a model-parallel axis (a norm's under sequence
// parallelism, a key head's that several ranks hold, a tied weight's on two pipeline ranks) are
// summed by the host, after the data axis.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cleave/comm.h"
#include "cleave/strategy.h"

namespace cleave {

class PartialGradients {
 public:
  /// Looks for gradient placements that are partial along an axis of more than one rank.
  /// `parameters`: the whole table, of which a rank may hold nothing. Collective.
  PartialGradients(const std::vector<Parameter*>& parameters, const Mesh& mesh,
                   const std::function<Comm&(const std::string& axis)>& comm);
  /// Sums their reduced gradients: one all-reduce per axis. Collective.
  void sum();

 private:
  struct Group {
    std::unique_ptr<Comm> comm;  // of the ranks along the axis that hold these
    std::vector<Parameter*> parameters;
  };
  std::vector<Group> groups_;  // in mesh order
};

/// What a rank will send for it in a step; `parameters`: those that its units use.
std::vector<CommUse> partial_gradient_uses(const std::vector<Parameter*>& parameters,
                                           const Mesh& mesh);

}  // namespace cleave
