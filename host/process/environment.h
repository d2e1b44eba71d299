// Numbers from environment variables, and Slurm's compressed lists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "process.h"

namespace cleave {

bool is_set(const Environment& environment, const char* name);
/// The variable as a number in [0, maximum]. ConfigError when it is not set or anything else.
int64_t required_number(const Environment& environment, const char* name, int64_t maximum);

/// First host of "node[01-03,07],login": "node01".
std::string first_host(std::string_view node_list);
/// Entry `index` of "4(x2),3", which stands for 4,4,3; nothing when the list is shorter or
/// malformed.
std::optional<int> nth_task_count(std::string_view counts, int64_t index);

}  // namespace cleave
