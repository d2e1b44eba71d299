#pragma once

#include <ostream>

namespace cleave {

/// The plugins on the search path (`host plugins`): kind, name, version, what each was built for
/// and its file. `failed`: those that can't be used instead, each with the reason and what to do
/// (`host plugins --failed`). Every file is tried out in a child process.
void print_plugins(std::ostream& out, bool failed);

}  // namespace cleave
