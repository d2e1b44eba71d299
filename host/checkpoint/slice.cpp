#include "checkpoint/slice.h"

#include <algorithm>

#include "cleave/error.h"

namespace cleave {

namespace {

constexpr int64_t kAlignedElements = 16;  // 64 bytes

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Elements that one index of each dim stands for, row-major.
std::vector<int64_t> strides_of(const Box& box) {
  const std::vector<int64_t> shape = box.shape();
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

/// Where the common part of two boxes lies in one of them.
struct Walk {
  std::vector<int64_t> strides;
  int64_t position;  // of the common part's current run

  Walk(const Box& box, const Box& common, int64_t first) : strides(strides_of(box)) {
    position = first;
    for (size_t d = 0; d < strides.size(); ++d)
      position += (common.begin[d] - box.begin[d]) * strides[d];
  }
};

Box intersection(const Box& a, const Box& b) {
  Box common = a;
  for (size_t d = 0; d < a.begin.size(); ++d) {
    common.begin[d] = std::max(a.begin[d], b.begin[d]);
    common.end[d] = std::max(common.begin[d], std::min(a.end[d], b.end[d]));
  }
  return common;
}

/// The dims, counted from the first, that a run doesn't cover: behind them the common part is all
/// of both boxes, and of the last of these any range will do.
size_t outer_dims(const Box& a, const Box& b, const Box& common) {
  size_t dims = common.begin.size();
  if (dims > 0) --dims;
  const auto is_whole = [&](size_t d) {
    return common.begin[d] == a.begin[d] && common.end[d] == a.end[d] &&
           common.begin[d] == b.begin[d] && common.end[d] == b.end[d];
  };
  while (dims > 0 && is_whole(dims)) --dims;
  return dims;
}

void visit_common_runs(const Box& from, int64_t first_from, const Box& to, int64_t first_to,
                       const std::function<void(const CommonRun&)>& visit) {
  const Box common = intersection(from, to);
  int64_t left = common.num_elements();
  if (left == 0) return;
  Walk a(from, common, first_from), b(to, common, first_to);
  const std::vector<int64_t> shape = common.shape();
  const size_t outer = outer_dims(from, to, common);
  int64_t length = 1;
  for (size_t d = outer; d < shape.size(); ++d) length *= shape[d];
  std::vector<int64_t> index(outer, 0);
  while (true) {
    visit({a.position, b.position, length});
    left -= length;
    if (left == 0) return;
    for (size_t d = outer; d-- > 0;) {
      const int64_t steps = index[d] + 1 < shape[d] ? 1 : -index[d];
      index[d] += steps;
      a.position += steps * a.strides[d];
      b.position += steps * b.strides[d];
      if (steps == 1) break;
    }
  }
}

}  // namespace

Slice Slice::whole(const std::vector<int64_t>& shape) {
  const Box box = Box::whole(shape);
  return {box, 0, box.num_elements()};
}

std::vector<int64_t> Slice::shape() const {
  if (begin == 0 && end == box.num_elements()) return box.shape();
  return {num_elements()};
}

Slice slice_of(const Placement& placement) {
  const Box& box = placement.box;
  const int64_t all = box.num_elements();
  if (!placement.piece) return {box, 0, all};
  const Piece& piece = *placement.piece;
  if (piece.unit == Piece::Unit::element) return {box, piece.begin, piece.end};
  const int64_t rows = box.end[0] - box.begin[0];
  const int64_t row_elements = rows == 0 ? 0 : all / rows;
  return {box, piece.begin * row_elements, piece.end * row_elements};
}

Slice saved_slice(const Placement& placement, const Mesh& mesh, int rank) {
  Slice slice = slice_of(placement);
  int64_t copies = 1, copy = 0;
  for (const MeshAxis& axis : mesh.leaf_axes()) {
    const int coordinate = mesh.coordinate(rank, axis.name);
    const AxisKind kind = placement.kind(axis.name);
    if (kind == AxisKind::replicate) {
      copies *= axis.size;
      copy = copy * axis.size + coordinate;
    } else if ((kind == AxisKind::subset || kind == AxisKind::partial) && coordinate != 0) {
      slice.end = slice.begin;
    }
  }
  const int64_t share = round_up((slice.num_elements() + copies - 1) / copies, kAlignedElements);
  const int64_t begin = std::min(slice.begin + copy * share, slice.end);
  return {slice.box, begin, std::min(begin + share, slice.end)};
}

// From the begin on, as many indices of the outermost dim as fit: first ever larger blocks, then
// ever smaller ones, each dim at most once on either way.
std::vector<Box> boxes_of(const Slice& slice) {
  const Box& box = slice.box;
  if (slice.begin >= slice.end) return {};
  if (box.begin.empty()) return {box};
  const std::vector<int64_t> shape = box.shape(), strides = strides_of(box);
  std::vector<Box> boxes;
  for (int64_t at = slice.begin; at < slice.end;) {
    size_t d = 0;
    while (at % strides[d] != 0 || at + strides[d] > slice.end) ++d;
    Box part = box;
    for (size_t outer = 0; outer <= d; ++outer) {
      part.begin[outer] = box.begin[outer] + at / strides[outer] % shape[outer];
      part.end[outer] = part.begin[outer] + 1;
    }
    const int64_t count = std::min(box.end[d] - part.begin[d], (slice.end - at) / strides[d]);
    part.end[d] = part.begin[d] + count;
    at += count * strides[d];
    boxes.push_back(std::move(part));
  }
  return boxes;
}

void for_each_common_run(const Slice& from, const Slice& to,
                         const std::function<void(const CommonRun&)>& visit) {
  CLEAVE_CHECK(from.box.begin.size() == to.box.begin.size(), "slices of ", from.box.begin.size(),
               " and ", to.box.begin.size(), " dims");
  const std::vector<Box> targets = boxes_of(to);
  int64_t first_from = 0;
  for (const Box& source : boxes_of(from)) {
    int64_t first_to = 0;
    for (const Box& target : targets) {
      visit_common_runs(source, first_from, target, first_to, visit);
      first_to += target.num_elements();
    }
    first_from += source.num_elements();
  }
}

}  // namespace cleave
