// `host check`: who holds what and who talks to whom, for any number of ranks, from the plan alone.
#pragma once

#include <ostream>

#include "core/model.h"
#include "core/strategies.h"

namespace cleave {

/// Rank table (all ranks up to 64, then the first and the last), placements of parameters,
/// gradients and optimizer state, and each strategy's communication: axis, groups, op, dtype,
/// bytes.
void print_layout(std::ostream& out, const Mesh& mesh, const Model& model, const SolvedPlan& plan);

}  // namespace cleave
