// [model] path: the architecture comes from the folder's config.json.
#pragma once

#include "run_config.h"

namespace cleave {

/// Sets every key of the architecture from `config.model.path`, absent ones as transformers does.
/// ConfigError with file and key: not a model that this program computes, a value that is wrong or
/// missing, or one that contradicts the same key written in [model].
void apply_model_folder(RunConfig& config);

}  // namespace cleave
