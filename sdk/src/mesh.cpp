#include "cleave/mesh.h"

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

std::optional<Mesh::Span> Mesh::find(std::string_view axis) const {
  const size_t dot = axis.find('.');
  const std::string_view name = axis.substr(0, dot);
  int stride = 1;
  for (auto it = axes_.rbegin(); it != axes_.rend(); stride *= it->size, ++it) {
    if (it->name != name) continue;
    if (dot == std::string_view::npos) return Span{it->size, stride};
    const auto inner = inner_sizes_.find(it->name);
    if (inner == inner_sizes_.end()) return std::nullopt;
    if (axis.substr(dot) == ".inner") return Span{inner->second, stride};
    if (axis.substr(dot) == ".outer") return Span{it->size / inner->second, stride * inner->second};
  }
  return std::nullopt;
}

bool Mesh::has_axis(std::string_view axis) const {
  return find(axis).has_value();
}

int Mesh::size(std::string_view axis) const {
  const auto span = find(axis);
  return span ? span->size : 1;
}

int Mesh::coordinate(int rank, std::string_view axis) const {
  const auto span = find(axis);
  return span ? rank / span->stride % span->size : 0;
}

std::vector<int> Mesh::group(int rank, std::string_view axis) const {
  const auto span = find(axis);
  if (!span) return {rank};
  const int first = rank - coordinate(rank, axis) * span->stride;
  std::vector<int> ranks(span->size);
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = first + static_cast<int>(i) * span->stride;
  return ranks;
}

void Mesh::divide(const std::string& axis, int inner_size) {
  CLEAVE_CHECK(inner_size >= 1 && has_axis(axis) && size(axis) % inner_size == 0, "axis ", axis,
               " of size ", size(axis), " in groups of ", inner_size);
  inner_sizes_[axis] = inner_size;
}

std::vector<MeshAxis> Mesh::leaf_axes() const {
  std::vector<MeshAxis> leaves;
  for (const MeshAxis& axis : axes_) {
    if (!inner_sizes_.contains(axis.name)) {
      leaves.push_back(axis);
      continue;
    }
    for (const char* part : {".outer", ".inner"})
      leaves.push_back({axis.name + part, size(axis.name + part)});
  }
  return leaves;
}

std::string Mesh::to_string() const {
  std::string text;
  for (const MeshAxis& axis : axes_)
    text += (text.empty() ? "" : " x ") + axis.name + " " + std::to_string(axis.size);
  return text;
}

}  // namespace cleave
