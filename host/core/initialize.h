// Initial weights that do not depend on the layout: a counter-based generator (Philox, Salmon et
// al. 2011) keyed by (seed, parameter name), counted by global element index.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/placement.h"

namespace cleave {

/// Fills `out` (float32, CPU, the shape of `box`) with the part `box` of the normal(0,
/// standard_deviation) tensor `name` of global `shape`. Any box of the same tensor gets the same
/// values.
void fill_normal(at::Tensor& out, const std::string& name, const std::vector<int64_t>& shape,
                 const Box& box, uint64_t seed, double standard_deviation);

}  // namespace cleave
