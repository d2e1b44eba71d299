// Cutting a sequence into parts of about equal cost.
#pragma once

#include <vector>

namespace cleave {

/// How many of the successive items go to each of `parts` contiguous parts, at least one each, so
/// that the most expensive part costs least (the linear partition problem, by dynamic programming)
/// and, among such cuts, the others are as even as can be. Needs costs.size() >= parts >= 1.
std::vector<int> balance(const std::vector<double>& costs, int parts);

}  // namespace cleave
