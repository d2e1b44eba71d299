// host describe
#pragma once

#include <ostream>

#include "config/describe.h"

namespace cleave {

/// Prints what `request` asks for. Looks only into the plugins that it names, in child processes.
/// Throws ConfigError: no such plugin (with the nearest name), two of that name, or one that can't
/// be used.
void print_description(const DescribeRequest& request, std::ostream& out);

}  // namespace cleave
