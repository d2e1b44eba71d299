#include "core/partial_gradients.h"

#include <ATen/ATen.h>

#include "cleave/memory.h"

namespace cleave {

PartialGradients::PartialGradients(const std::vector<Parameter*>& parameters, const Mesh& mesh,
                                   const std::function<Comm&(const std::string& axis)>& comm) {
  for (const MeshAxis& axis : mesh.leaf_axes()) {
    if (axis.size == 1) continue;
    bool is_any = false;
    Group group;
    for (Parameter* parameter : parameters) {
      if (parameter->gradient_placement.kind(axis.name) != AxisKind::partial) continue;
      is_any = true;
      if (!parameter->units.empty()) group.parameters.push_back(parameter);
    }
    if (!is_any) continue;
    Comm& whole = comm(axis.name);
    const bool takes_part = !group.parameters.empty();
    group.comm = whole.split(takes_part ? 0 : -1, whole.rank(), whole.name() + ".partial");
    if (takes_part) groups_.push_back(std::move(group));
  }
}

std::vector<CommUse> partial_gradient_uses(const std::vector<Parameter*>& parameters,
                                           const Mesh& mesh) {
  std::vector<CommUse> uses;
  for (const MeshAxis& axis : mesh.leaf_axes()) {
    double bytes = 0;
    for (const Parameter* parameter : parameters) {
      if (parameter->gradient_placement.kind(axis.name) != AxisKind::partial) continue;
      // a tied weight's other holders along the pipeline: one
      const bool is_subset = parameter->value_placement.kind(axis.name) == AxisKind::subset;
      const double ranks = is_subset ? 2 : axis.size;
      bytes += 2 * (ranks - 1) / ranks * sizeof(float) *
               static_cast<double>(parameter->gradient_placement.num_elements());
    }
    if (axis.size > 1 && bytes > 0)
      uses.push_back({axis.name, CLEAVE_ALL_REDUCE, at::kFloat, bytes});
  }
  return uses;
}

void PartialGradients::sum() {
  MemoryScope scope(MemoryCategory::gradients);
  for (const Group& group : groups_) {
    std::vector<at::Tensor> parts;
    for (const Parameter* parameter : group.parameters)
      parts.push_back(parameter->reduced_gradient.flatten());
    at::Tensor flat = at::cat(parts);
    group.comm->all_reduce(flat).wait();
    int64_t begin = 0;
    for (at::Tensor& part : parts) {
      part.copy_(flat.narrow(0, begin, part.numel()));
      begin += part.numel();
    }
  }
}

}  // namespace cleave
