// Which rows and columns of each matrix a tensor rank holds.
#pragma once

#include "cleave/strategy.h"

namespace cleave {

inline constexpr char kAxis[] = "tensor";

/// Writes the boxes of all parameters for `plan.rank`. Blocks (heads of keys and values) that are
/// fewer than the ranks are held by several neighbours each: the axis is divided for them.
/// ConfigError with the sizes that would do when something does not divide.
void partition_matrices(Plan& plan);

}  // namespace cleave
