#pragma once

#include <string>

#include "compare/result.h"

namespace cleave {

/// compare.json: everything that is known, down to each step of each run.
std::string compare_json(const CompareResult& result);

}  // namespace cleave
