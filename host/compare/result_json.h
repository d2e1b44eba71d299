#pragma once

#include <filesystem>
#include <string>

#include "compare/result.h"

namespace cleave {

/// compare.json: everything that is known, down to each step of each run.
std::string compare_json(const CompareResult& result);
/// Whether the file is one.
bool is_compare_json(const std::filesystem::path& file);

}  // namespace cleave
