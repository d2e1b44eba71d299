#pragma once

#include <ostream>

namespace cleave {

/// Versions of all libraries, one line each (`host --version`).
void print_versions(std::ostream& out);

}  // namespace cleave
