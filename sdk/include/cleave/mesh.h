// Ranks on named axes. The last axis varies fastest: neighbours in rank share the innermost axis,
// so tensor groups stay inside a machine and pipeline stages may cross the slowest link.
#pragma once

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

 private:
  int stride(std::string_view axis) const;
  std::vector<MeshAxis> axes_;
};

}  // namespace cleave
