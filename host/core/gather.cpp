#include "core/gather.h"

#include <ATen/ATen.h>

namespace cleave {

namespace {

// What `part` is of the box, in the box's shape.
at::Tensor box_of(const Placement& placement, const at::Tensor& part) {
  const auto shape = placement.box.shape();
  if (!placement.piece) return part.view(at::IntArrayRef(shape));
  at::Tensor box = at::zeros(at::IntArrayRef(shape), part.options());
  const Piece& piece = *placement.piece;
  if (piece.unit == Piece::Unit::row)
    box.narrow(0, piece.begin, piece.end - piece.begin).copy_(part);
  else
    box.view({-1}).narrow(0, piece.begin, piece.end - piece.begin).copy_(part);
  return box;
}

}  // namespace

bool is_whole_everywhere(const Placement& placement, const Mesh& mesh) {
  for (const MeshAxis& axis : mesh.leaf_axes())
    if (axis.size > 1 && placement.kind(axis.name) != AxisKind::replicate) return false;
  return true;
}

at::Tensor gather_whole(const Parameter& parameter, const Placement& placement,
                        const at::Tensor& part, const Mesh& mesh, Comm& world) {
  if (is_whole_everywhere(placement, mesh)) return part.clone();
  at::Tensor whole = at::zeros(at::IntArrayRef(parameter.shape), part.options());
  if (is_owner(placement, mesh, world.rank()) && part.numel() > 0) {
    at::Tensor target = whole;
    for (size_t d = 0; d < parameter.shape.size(); ++d)
      target = target.narrow(static_cast<int64_t>(d), placement.box.begin[d],
                             placement.box.end[d] - placement.box.begin[d]);
    target.copy_(box_of(placement, part));
  }
  // Each element has one owner and is zero elsewhere: summed as integers, no bit changes.
  world.all_reduce(whole.view(at::kInt)).wait_host();
  return whole;
}

}  // namespace cleave
