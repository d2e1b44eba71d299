// Ranks on named axes. The last axis varies fastest: neighbours in rank share the innermost axis,
// so tensor groups stay inside a machine and pipeline stages may cross the slowest link.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cleave {

struct MeshAxis {
  std::string name;
  int size;
};

class Mesh {
 public:
  /// `axes` from outermost to innermost, by default pipeline, data, tensor.
  explicit Mesh(std::vector<MeshAxis> axes);

  int world_size() const;
  const std::vector<MeshAxis>& axes() const { return axes_; }
  bool has_axis(std::string_view axis) const;
  /// 1 for an axis that the mesh does not name.
  int size(std::string_view axis) const;
  /// Position of `rank` along `axis`; 0 for an axis that the mesh does not name.
  int coordinate(int rank, std::string_view axis) const;
  /// The ranks that differ from `rank` along `axis` only, in order along it.
  std::vector<int> group(int rank, std::string_view axis) const;
  /// "pipeline 2 x data 2 x tensor 2"
  std::string to_string() const;

  /// Splits an axis into "<axis>.inner", groups of `inner_size` neighbours along it, and
  /// "<axis>.outer", the ranks at the same place in those groups. All methods above know the parts
  /// by these names; axes() stays as it is. `inner_size` must divide the axis.
  void divide(const std::string& axis, int inner_size);
  /// axes() with each divided axis replaced by its outer and inner part.
  std::vector<MeshAxis> leaf_axes() const;

 private:
  struct Span {
    int size;
    int stride;  // in ranks
  };
  std::optional<Span> find(std::string_view axis) const;

  std::vector<MeshAxis> axes_;
  std::map<std::string, int> inner_sizes_;  // of divided axes
};

}  // namespace cleave
