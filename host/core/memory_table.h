// Bytes by category as the user sees them.
#pragma once

#include <ostream>

#include "core/memory_account.h"
#include "core/strategies.h"

namespace cleave {

/// What rank 0 is predicted to hold: a line for each category with what it is made of, and the
/// total, in MiB.
void print_memory(std::ostream& out, const SolvedPlan& plan);

}  // namespace cleave
