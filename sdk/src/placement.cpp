#include "cleave/placement.h"

namespace cleave {

Box Box::whole(const std::vector<int64_t>& shape) {
  return {std::vector<int64_t>(shape.size(), 0), shape};
}

int64_t Box::num_elements() const {
  int64_t n = 1;
  for (size_t d = 0; d < begin.size(); ++d) n *= end[d] - begin[d];
  return n;
}

std::vector<int64_t> Box::shape() const {
  std::vector<int64_t> extents(begin.size());
  for (size_t d = 0; d < begin.size(); ++d) extents[d] = end[d] - begin[d];
  return extents;
}

AxisKind Placement::kind(const std::string& axis) const {
  auto it = axes.find(axis);
  if (it == axes.end()) it = axes.find(axis.substr(0, axis.find('.')));  // a part: the whole's
  return it == axes.end() ? AxisKind::replicate : it->second;
}

std::vector<int64_t> Placement::shape() const {
  std::vector<int64_t> extents = box.shape();
  if (!piece) return extents;
  if (piece->unit == Piece::Unit::element) return {piece->end - piece->begin};
  extents[0] = piece->end - piece->begin;
  return extents;
}

int64_t Placement::num_elements() const {
  if (!piece) return box.num_elements();
  const int64_t length = piece->end - piece->begin;
  if (piece->unit == Piece::Unit::element) return length;
  const int64_t rows = box.end[0] - box.begin[0];
  return rows == 0 ? 0 : box.num_elements() / rows * length;
}

bool is_owner(const Placement& placement, const Mesh& mesh, int rank) {
  for (const MeshAxis& axis : mesh.leaf_axes()) {
    const AxisKind kind = placement.kind(axis.name);
    const bool has_copies = kind == AxisKind::replicate || kind == AxisKind::subset ||
                            kind == AxisKind::partial;
    if (has_copies && mesh.coordinate(rank, axis.name) != 0) return false;
  }
  return true;
}

}  // namespace cleave
