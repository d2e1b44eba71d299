// The spans of a run's trace files.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"

namespace cleave::test {

struct TraceSpan {
  std::string name;  ///< "forward layers.0 #1", "data.all_gather"
  double begin;      ///< microseconds of a clock that all ranks share
  double end;
};

/// Trains as `host train` does on `ranks` threads, with a trace; rank r's spans are [r], in order
/// of begin.
std::vector<std::vector<TraceSpan>> train_traced(RunConfig config, int ranks);

}  // namespace cleave::test
