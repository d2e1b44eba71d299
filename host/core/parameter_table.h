// The model's parameters: one entry per logical tensor, and which units use it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "cleave/parameter.h"
#include "cleave/roles.h"
#include "core/initialize.h"

namespace cleave {

class ParameterTable {
 public:
  explicit ParameterTable(at::ScalarType dtype) : dtype_(dtype) {}

  /// Registers the use of `name` by `unit`; a name that is there already is a tie and returns the
  /// same entry (the shape must match). Nothing is allocated.
  Parameter& use(UnitInfo& unit, const std::string& name, std::vector<int64_t> shape, Init init,
                 MatrixSplit split = {});

  /// Table order; stable addresses.
  std::vector<Parameter*> all();
  int64_t num_elements() const;  ///< each logical parameter once

  /// The part `placement` of a parameter before the first step: float32, on the CPU.
  at::Tensor initial(const Parameter& parameter, const Placement& placement,
                     const WeightSource& source) const;
  /// Fills the masters of `parameters`, one after the other; allocates on `device` those that
  /// `binder` did not, and the values that follow from them. The other entries get empty tensors.
  void materialize(at::Device device, const WeightSource& source,
                   const std::vector<Parameter*>& parameters, OptimizerBinder* binder = nullptr);
  void materialize(at::Device device, uint64_t seed, double standard_deviation);
  /// Drops all tensors.
  void clear();

 private:
  at::ScalarType dtype_;
  std::deque<Parameter> entries_;
  std::vector<Init> inits_;
};

}  // namespace cleave
