// Which part of a tensor lives on this rank. Norm, clip, initialisation, checkpoint and verify use
// nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cleave/mesh.h"

namespace cleave {

/// A half-open n-dimensional range of a global tensor: dims d in [begin[d], end[d]).
struct Box {
  std::vector<int64_t> begin;
  std::vector<int64_t> end;

  static Box whole(const std::vector<int64_t>& shape);
  int64_t num_elements() const;
  std::vector<int64_t> shape() const;
  bool operator==(const Box&) const = default;
};

/// A contiguous part of a box in its row-major order: rows of dim 0, or elements.
struct Piece {
  enum class Unit { row, element } unit;
  int64_t begin;
  int64_t end;
  bool operator==(const Piece&) const = default;
};

/// What the ranks along one mesh axis hold of a tensor.
enum class AxisKind {
  replicate,   ///< equal copies
  subset,      ///< equal copies on the first rank and some others, nothing on the rest
  shard,       ///< disjoint parts
  partial,     ///< terms of a sum that is still to be formed
  independent  ///< unrelated values (DiLoCo replicas, error feedback)
};

/// A box (cut by pipeline, then tensor) and inside it an optional piece (cut by data).
struct Placement {
  Box box;
  std::optional<Piece> piece;
  /// Axes not named: replicate. Of a divided axis (mesh.h) the whole or its parts are named.
  std::map<std::string, AxisKind> axes;

  AxisKind kind(const std::string& axis) const;
  /// Shape of what this rank holds: the box's, fewer rows of it, or the number of elements.
  std::vector<int64_t> shape() const;
  int64_t num_elements() const;  ///< on this rank
  bool operator==(const Placement&) const = default;
};

/// Whether `rank` is the one that answers for what it holds: of equal copies (and sums, once they
/// are formed), the first. Each element of a tensor has one such rank; norms, files and checksums
/// count it there.
bool is_owner(const Placement& placement, const Mesh& mesh, int rank);

}  // namespace cleave
