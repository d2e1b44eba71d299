#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cleave {

/// Of the machine that this runs on: processor, cores, memory, kernel, load average; what the
/// kernel doesn't tell is left out.
std::vector<std::pair<std::string, std::string>> machine_facts();

/// "2025-03-14 15:09:26 UTC"
std::string utc_now();

}  // namespace cleave
