// What the terminal shows of a comparison.
#pragma once

#include <ostream>

#include "compare/result.h"

namespace cleave {

/// All rows and how much there is to do, before anything runs.
void print_rows(std::ostream& out, const CompareResult& result, bool with_commands);

/// The figures of all rows, aligned, and what follows from them.
void print_result(std::ostream& out, const CompareResult& result);

/// Seconds that the runs take that are still to come, by those that are over; negative: nothing is
/// known yet. `first`: rows of this repetition that are done.
double seconds_left(const CompareResult& result, int64_t repetition, size_t first);

}  // namespace cleave
