// Text that ranks tell each other outside of steps: why something failed, what was written.
#pragma once

#include <string>
#include <vector>

#include "cleave/comm.h"

namespace cleave {

/// Collective: every rank's text, by rank.
std::vector<std::string> gather_texts(Comm& world, const std::string& mine);

/// Collective: "rank 2: <text>" of the first rank whose text is not empty; "" when all are.
std::string first_fault(Comm& world, const std::string& mine);

}  // namespace cleave
