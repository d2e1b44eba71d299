// The fields of RunConfig by key.
#pragma once

#include "keys.h"
#include "run_config.h"
#include "value.h"

namespace cleave {

/// `content` is of the key's type (check_value()). An axis has no field: nothing is set.
void set_field(RunConfig& config, const Key& key, const Content& content);
/// Sets the key's default where it has a value of its own.
void set_default(RunConfig& config, const Key& key);
/// Monostate: not set, or an axis.
Content read_field(const RunConfig& config, const Key& key);

}  // namespace cleave
