// What a user is told when memory runs out.
#pragma once

#include <functional>

#include "core/memory_account.h"
#include "core/strategies.h"

namespace cleave {

/// Calls `body`. An allocation that fails in it becomes one RuntimeError: the rank, what was asked
/// for where that is known, bytes by category (predicted, in use, peak), and what to change.
/// Everything else that it throws is thrown on.
void explain_failed_allocation(int rank, const SolvedPlan& plan, const MemoryAccount& memory,
                               const std::function<void()>& body);

}  // namespace cleave
