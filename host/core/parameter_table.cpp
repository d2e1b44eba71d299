#include "core/parameter_table.h"

#include <ATen/ATen.h>

#include "cleave/error.h"
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

at::Tensor ParameterTable::initial(const Parameter& parameter, const Box& box,
                                   const WeightSource& source) const {
  at::Tensor value = at::empty(box.shape(), at::kFloat);
  source(parameter, inits_[parameter.index], box, value);
  return value;
}

void ParameterTable::materialize(at::Device device, const WeightSource& source) {
  for (Parameter& entry : entries_) {
    {
      const bool is_value = entry.dtype == at::kFloat;
      MemoryScope scope(is_value ? MemoryCategory::parameters : MemoryCategory::master);
      entry.master = initial(entry, entry.value_placement.box, source).to(device);
    }
    MemoryScope scope(MemoryCategory::parameters);
    entry.value = entry.master.to(entry.dtype);  // no copy where it is float32
  }
}

void ParameterTable::materialize(at::Device device, uint64_t seed, double standard_deviation) {
  materialize(device, random_weights(seed, standard_deviation));
}

void ParameterTable::clear() {
  for (Parameter& entry : entries_) entry.value = entry.master = entry.gradient = at::Tensor();
}

}  // namespace cleave
