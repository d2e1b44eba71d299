// The program `host` as a function: command line in, exit code out.
#pragma once

#include <ostream>

namespace cleave {

/// 0 done; 2 user error, nothing was started; 1 failure at run time, or verify found a difference.
/// Never throws.
int run_program(int argc, const char* const* argv, std::ostream& out, std::ostream& error);

}  // namespace cleave
