// Parts of tensors as checkpoints store and load them: a range of a box, whoever cut it and why.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cleave/placement.h"

namespace cleave {

/// The elements [begin, end) of a box of a tensor, in the box's row-major order.
struct Slice {
  Box box;
  int64_t begin;
  int64_t end;

  static Slice whole(const std::vector<int64_t>& shape);
  int64_t num_elements() const { return end - begin; }
  /// The box's shape where it is all of it, else one dim.
  std::vector<int64_t> shape() const;
  bool operator==(const Slice&) const = default;
};

/// What a rank with this placement holds.
Slice slice_of(const Placement& placement);

/// What of it the rank saves: the ranks that hold equal copies share the work, in ranges that begin
/// at multiples of 16 elements. Over all ranks, each element of the tensor once. May be empty.
Slice saved_slice(const Placement& placement, const Mesh& mesh, int rank);

/// The boxes that the slice consists of, in its order: at most 2 x dims - 1, none for an empty one.
std::vector<Box> boxes_of(const Slice& slice);

/// Elements that two slices of a tensor have in common and that are neighbours in both.
struct CommonRun {
  int64_t from;   ///< first element in `from`, counted from its begin
  int64_t to;     ///< the same in `to`
  int64_t count;  ///< elements, at least 1
};

/// Calls `visit` for each, ascending in `from` within a pair of boxes; as long as they can be along
/// the last dim.
void for_each_common_run(const Slice& from, const Slice& to,
                         const std::function<void(const CommonRun&)>& visit);

}  // namespace cleave
