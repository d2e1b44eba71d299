// Memory of this process as the kernel counts it; ranks that are threads of it share the figure.
#pragma once

namespace cleave {

/// Resident now: its own pages, those of files that it maps, and those of the files in memory that
/// it made (memfd: communicators share buffers in them), whoever touched them. What it maps of
/// other processes' is theirs. RuntimeError when /proc can't be read.
double resident_mib();

}  // namespace cleave
