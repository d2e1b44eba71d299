// The one model file: a Llama / Qwen2 decoder as a list of units.
#pragma once

#include <memory>
#include <vector>

#include "config/run_config.h"
#include "core/parameter_table.h"
#include "core/unit.h"

namespace cleave {

/// Units in forward order: embedding, num_hidden_layers decoder layers, final norm + head.
/// Registers every parameter in `table`; allocates nothing.
std::vector<std::unique_ptr<Unit>> make_decoder(const ModelConfig& config, int64_t sequence_length,
                                                ParameterTable& table);

/// FLOPs of one training step per token: 6 for each weight of a matrix product, and attention's
/// 6 L H D T (causal half of 12 L H D T). The embedding look-up counts nothing.
double flops_per_token(const ModelConfig& config, int64_t sequence_length);

}  // namespace cleave
