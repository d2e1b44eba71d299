// The line that the console shows for a step.
#pragma once

#include <string>

#include "step_record.h"

namespace cleave {

/// The fields and their order are torchtitan's (step, loss, grad_norm, memory, tps, tflops, mfu);
/// memory is the largest rank's peak, tps and tflops are those of all ranks together. `eta_s`:
/// seconds to the end of the run.
std::string console_line(const StepRecord& record, int64_t steps, double eta_s);

/// "812.3 MiB", "1.25 GiB"
std::string format_mib(double mib);
/// "1,234,567"
std::string format_count(double value);
/// "42s", "2m07s", "3h05m"
std::string format_duration(double seconds);

}  // namespace cleave
