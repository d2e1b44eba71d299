#include "core/parameter_table.h"

#include <ATen/ATen.h>

#include "cleave/error.h"
#include "core/memory_account.h"

namespace cleave {

Parameter& ParameterTable::use(UnitInfo& unit, const std::string& name, std::vector<int64_t> shape,
                               Init init, MatrixSplit split) {
  for (Parameter& entry : entries_) {
    if (entry.name != name) continue;
    CLEAVE_CHECK(entry.shape == shape, "tied parameter ", name, " is used with two shapes");
    entry.units.push_back(unit.index);
    entry.is_tied = true;
    unit.parameters.push_back(&entry);
    return entry;
  }
  Parameter& entry = entries_.emplace_back();
  entry.name = name;
  entry.shape = std::move(shape);
  entry.dtype = dtype_;
  entry.index = static_cast<int>(entries_.size()) - 1;
  entry.units = {unit.index};
  entry.split = split;
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

namespace {

// The smallest box of whole rows that holds the placement's piece, and the piece's first element in
// it.
std::pair<Box, int64_t> covering_rows(const Placement& placement) {
  Box box = placement.box;
  if (!placement.piece) return {box, 0};
  const Piece& piece = *placement.piece;
  const int64_t rows = box.end[0] - box.begin[0];
  const int64_t length =
      piece.unit == Piece::Unit::row || rows == 0 ? 1 : box.num_elements() / rows;
  const int64_t first = piece.begin / length;
  box.end[0] = box.begin[0] + (piece.end + length - 1) / length;
  box.begin[0] += first;
  return {box, piece.begin - first * length};
}

}  // namespace

at::Tensor ParameterTable::initial(const Parameter& parameter, const Placement& placement,
                                   const WeightSource& source) const {
  const std::vector<int64_t> shape = placement.shape();
  if (placement.num_elements() == 0) return at::empty(shape, at::kFloat);
  const auto [box, first] = covering_rows(placement);
  at::Tensor value = at::empty(box.shape(), at::kFloat);
  source(parameter, inits_[parameter.index], box, value);
  return value.flatten().narrow(0, first, placement.num_elements()).view(shape);
}

void ParameterTable::materialize(at::Device device, const WeightSource& source,
                                 const std::vector<Parameter*>& parameters,
                                 OptimizerBinder* binder) {
  if (binder) binder->allocate_weights(parameters);
  for (Parameter& entry : entries_) {
    const bool is_value = entry.dtype == at::kFloat;
    MemoryScope scope(binder     ? MemoryCategory::other
                      : is_value ? MemoryCategory::parameters
                                 : MemoryCategory::master);
    const at::Tensor initial_master = initial(entry, entry.state_placement, source);
    if (entry.master.defined()) {
      entry.master.copy_(initial_master);
      continue;
    }
    entry.master = initial_master.to(device);
    MemoryScope value_scope(MemoryCategory::parameters);
    entry.value = entry.master.to(entry.dtype);  // no copy where it is float32
  }
  if (binder) binder->weights_changed();
}

void ParameterTable::materialize(at::Device device, uint64_t seed, double standard_deviation) {
  materialize(device, random_weights(seed, standard_deviation), all());
}

void ParameterTable::clear() {
  for (Parameter& entry : entries_)
    entry.value = entry.master = entry.gradient = entry.reduced_gradient = at::Tensor();
}

}  // namespace cleave
