// `host verify`: is the config's layout the model that one rank would have trained?
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "core/captured_run.h"

namespace cleave {

/// DESIGN 7.5's bounds for float32; bfloat16 rounds each product, so its bounds are wider.
struct Tolerances {
  double loss;      ///< relative, step 1
  double norm;      ///< relative, every step
  double gradient;  ///< ||g - r|| <= gradient max(||r||, 1e-2 ||all r||)
  double weight;    ///< relative per tensor, after the last step
};
Tolerances tolerances(const std::string& dtype);

/// The worst value of one kind of comparison.
struct Deviation {
  std::string what;   ///< "gradient of step 1"
  int64_t compared;   ///< how many values or tensors
  double largest;     ///< deviation over what is allowed to it, 1 = the bound
  std::string where;  ///< step or parameter of the largest
  std::string first;  ///< first in table order that is out of bounds; empty: none
  double tolerance;
};

std::vector<Deviation> compare(const CapturedRun& run, const CapturedRun& reference,
                               const std::vector<std::string>& parameter_order,
                               const Tolerances& bounds);

/// Trains the config's layout for at most `steps` steps on the ranks that are there, then the same
/// on one rank, as a thread of rank 0 (optimizer.epsilon at least 1e-2 in both: Adam with 1e-8
/// turns rounding into updates); prints the comparison there. Collective; returns the same on all
/// ranks: whether everything is within the bounds.
bool verify(RunConfig config, int64_t steps, const ProcessInfo& process, const Bootstrap& bootstrap,
            const std::function<void()>& on_failure, std::ostream& out);

}  // namespace cleave
