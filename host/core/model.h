// The model of one rank: parameters and units, first as descriptions, then with tensors.
#pragma once

#include <memory>
#include <vector>

#include "config/run_config.h"
#include "core/decoder.h"
#include "core/parameter_table.h"

namespace cleave {

struct Model {
  /// ConfigError when the weights of model.path are not this model's.
  explicit Model(const RunConfig& config);

  ParameterTable table;
  std::vector<std::unique_ptr<Unit>> units;
  /// As strategies see them; same order and content as `units` and `table`.
  std::vector<UnitInfo> unit_infos;
  std::vector<Parameter*> parameters;

  /// Opened and checked where model.init = "pretrained"; otherwise nullptr.
  std::shared_ptr<const WeightFolder> weights;
  WeightSource initial_weights;
};

/// ConfigError when the folder of a tied model has a head that is not the embedding. Reads both.
void check_tied_head(const Model& model);

/// As weight folders list them.
std::vector<ExpectedTensor> names_and_shapes(const std::vector<Parameter*>& parameters);

at::ScalarType scalar_type(const std::string& dtype);

}  // namespace cleave
