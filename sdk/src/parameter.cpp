#include "cleave/parameter.h"

namespace cleave {

std::vector<Parameter*> backward_order(const std::vector<UnitInfo>& units) {
  std::vector<Parameter*> order;
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit)
    for (auto it = unit->parameters.rbegin(); it != unit->parameters.rend(); ++it)
      if ((*it)->units.front() == unit->index) order.push_back(*it);
  return order;
}

}  // namespace cleave
