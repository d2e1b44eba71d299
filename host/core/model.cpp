#include "core/model.h"

#include "cleave/error.h"

namespace cleave {

at::ScalarType scalar_type(const std::string& dtype) {
  if (dtype == "float32") return at::kFloat;
  if (dtype == "bfloat16") return at::kBFloat16;
  throw ConfigError(message("train.dtype: ", dtype, " is not known; use float32 or bfloat16"));
}

Model::Model(const RunConfig& config)
    : table(scalar_type(config.train.dtype)),
      units(make_decoder(config.model, config.data.sequence_length, table)),
      parameters(table.all()) {
  for (const auto& unit : units) unit_infos.push_back(unit->info);
}

std::vector<Parameter*> Model::backward_order() const {
  std::vector<Parameter*> order;
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    const UnitInfo& info = (*unit)->info;
    for (auto it = info.parameters.rbegin(); it != info.parameters.rend(); ++it)
      if ((*it)->units.front() == info.index) order.push_back(*it);
  }
  return order;
}

}  // namespace cleave
