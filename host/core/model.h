// The model of one rank: parameters and units, first as descriptions, then with tensors.
#pragma once

#include <memory>
#include <vector>

#include "config/run_config.h"
#include "core/decoder.h"
#include "core/parameter_table.h"

namespace cleave {

struct Model {
  explicit Model(const RunConfig& config);

  ParameterTable table;
  std::vector<std::unique_ptr<Unit>> units;
  /// As strategies see them; same order and content as `units` and `table`.
  std::vector<UnitInfo> unit_infos;
  std::vector<Parameter*> parameters;

  /// Parameters in the order in which their gradients become ready: by the first unit that uses
  /// them, last unit first; inside a unit in reverse order of use.
  std::vector<Parameter*> backward_order() const;
};

at::ScalarType scalar_type(const std::string& dtype);

}  // namespace cleave
