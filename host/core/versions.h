#pragma once

#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace cleave {

/// Of this program, its libraries and its compiler: name, version.
std::vector<std::pair<std::string, std::string>> versions();

/// The same, one line each (`host --version`).
void print_versions(std::ostream& out);

}  // namespace cleave
