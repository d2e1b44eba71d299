#include "cleave/mesh.h"

#include <algorithm>

#include "cleave/error.h"

namespace cleave {

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
  for (const MeshAxis& axis : axes_)
    CLEAVE_CHECK(axis.size >= 1, "axis ", axis.name, " has size ", axis.size);
}

int Mesh::world_size() const {
  int product = 1;
  for (const MeshAxis& axis : axes_) product *= axis.size;
  return product;
}

bool Mesh::has_axis(std::string_view axis) const {
  return std::any_of(axes_.begin(), axes_.end(), [&](const MeshAxis& a) { return a.name == axis; });
}

int Mesh::size(std::string_view axis) const {
  for (const MeshAxis& a : axes_)
    if (a.name == axis) return a.size;
  return 1;
}

int Mesh::stride(std::string_view axis) const {
  int stride = 1;
  for (auto it = axes_.rbegin(); it != axes_.rend() && it->name != axis; ++it) stride *= it->size;
  return stride;
}

int Mesh::coordinate(int rank, std::string_view axis) const {
  return has_axis(axis) ? rank / stride(axis) % size(axis) : 0;
}

std::vector<int> Mesh::group(int rank, std::string_view axis) const {
  if (!has_axis(axis)) return {rank};
  const int step = stride(axis);
  const int first = rank - coordinate(rank, axis) * step;
  std::vector<int> ranks(size(axis));
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = first + static_cast<int>(i) * step;
  return ranks;
}

std::string Mesh::to_string() const {
  std::string text;
  for (const MeshAxis& axis : axes_)
    text += (text.empty() ? "" : " x ") + axis.name + " " + std::to_string(axis.size);
  return text;
}

}  // namespace cleave
