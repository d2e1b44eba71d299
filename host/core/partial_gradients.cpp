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
