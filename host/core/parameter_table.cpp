#include "core/parameter_table.h"

#include <ATen/ATen.h>

#include "cleave/error.h"
#include "core/initialize.h"
#include "core/memory_account.h"

namespace cleave {

Parameter& ParameterTable::use(UnitInfo& unit, const std::string& name, std::vector<int64_t> shape,
                               Init init) {
  for (Parameter& entry : entries_) {
    if (entry.name != name) continue;
    CLEAVE_CHECK(entry.shape == shape, "tied parameter ", name, " is used with two shapes");
    entry.units.push_back(unit.index);
    unit.parameters.push_back(&entry);
    return entry;
  }
  Parameter& entry = entries_.emplace_back();
  entry.name = name;
  entry.shape = std::move(shape);
  entry.dtype = dtype_;
  entry.index = static_cast<int>(entries_.size()) - 1;
  entry.units = {unit.index};
  entry.value_placement.box = Box::whole(entry.shape);
  entry.gradient_placement = entry.state_placement = entry.value_placement;
  inits_.push_back(init);
  unit.parameters.push_back(&entry);
  return entry;
}

std::vector<Parameter*> ParameterTable::all() {
  std::vector<Parameter*> entries;
  for (Parameter& entry : entries_) entries.push_back(&entry);
  return entries;
}

int64_t ParameterTable::num_elements() const {
  int64_t total = 0;
  for (const Parameter& entry : entries_) total += entry.num_elements();
  return total;
}

void ParameterTable::materialize(at::Device device, uint64_t seed, double standard_deviation) {
  MemoryScope scope(MemoryCategory::parameters);
  for (Parameter& entry : entries_) {
    const Box& box = entry.value_placement.box;
    at::Tensor value = at::empty(box.shape(), at::kFloat);
    if (inits_[entry.index] == Init::normal)
      fill_normal(value, entry.name, entry.shape, box, seed, standard_deviation);
    else
      value.fill_(inits_[entry.index] == Init::ones ? 1.0 : 0.0);
    entry.value = value.to(at::TensorOptions().device(device).dtype(entry.dtype));
  }
}

void ParameterTable::clear() {
  for (Parameter& entry : entries_) entry.value = entry.gradient = at::Tensor();
}

}  // namespace cleave
