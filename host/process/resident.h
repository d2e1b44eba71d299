// Memory of this process as the kernel counts it; ranks that are threads of it share the figure.
#pragma once

namespace cleave {

/// Resident now (VmRSS). RuntimeError when /proc can't be read.
double resident_mib();
/// Highest since the process started (VmHWM).
double peak_resident_mib();

}  // namespace cleave
