// Initial weights: a model folder's, or random ones that do not depend on the layout: a
// counter-based generator (Philox, Salmon et al. 2011) keyed by (seed, parameter name), counted by
// global element index.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cleave/parameter.h"
#include "huggingface/weight_folder.h"

namespace cleave {

/// Initial content of a parameter where weights are random.
enum class Init { normal, zeros, ones };

/// Fills `out` (float32, CPU, the shape of the box) with that part of the parameter.
using WeightSource =
    std::function<void(const Parameter& parameter, Init init, const Box& box, at::Tensor& out)>;

WeightSource random_weights(uint64_t seed, double standard_deviation);
WeightSource folder_weights(std::shared_ptr<const WeightFolder> folder);

/// Fills `out` (float32, CPU, the shape of `box`) with the part `box` of the normal(0,
/// standard_deviation) tensor `name` of global `shape`. Any box of the same tensor gets the same
/// values.
void fill_normal(at::Tensor& out, const std::string& name, const std::vector<int64_t>& shape,
                 const Box& box, uint64_t seed, double standard_deviation);

}  // namespace cleave
