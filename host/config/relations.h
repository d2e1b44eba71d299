// What one key says about another, as far as it needs no ranks.
#pragma once

#include "run_config.h"

namespace cleave {

/// Sets the keys that follow from others when the file leaves them out.
void derive_defaults(RunConfig& config);
/// The same for the architecture alone.
void derive_model_defaults(RunConfig& config);
/// Throws ConfigError with both values when two keys contradict each other.
void check_relations(const RunConfig& config);

}  // namespace cleave
