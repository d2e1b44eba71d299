// The line that the console shows for a step.
#pragma once

#include <ostream>
#include <string>

#include "step_record.h"

namespace cleave {

enum class ConsoleStyle { plain, coloured };

/// Coloured only when `console` is this program's standard output or error and that is a terminal.
ConsoleStyle style_for(const std::ostream& console);

/// The fields and their order are torchtitan's (step, loss, grad_norm, memory, tps, tflops, mfu);
/// memory is the largest rank's peak, tps and tflops are those of all ranks together. `eta_s`:
/// seconds to the end of the run.
std::string console_line(const StepRecord& record, int64_t steps, double eta_s, ConsoleStyle style);

/// "812.3 MiB", "1.25 GiB"
std::string format_mib(double mib);
/// "1,234,567"
std::string format_count(double value);

}  // namespace cleave
