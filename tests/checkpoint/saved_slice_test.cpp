#include <gtest/gtest.h>

#include "checkpoint_fixture.h"

namespace cleave::test {
namespace {

using Shape = std::vector<int64_t>;

/// How often the ranks together save each element of a tensor.
std::vector<int> times_saved(const Layout& layout, const Shape& shape) {
  std::vector<int> times(static_cast<size_t>(Box::whole(shape).num_elements()), 0);
  for (int rank = 0; rank < layout.mesh.world_size(); ++rank)
    for (const int64_t element :
         elements_of(saved_slice(layout.place(shape, rank), layout.mesh, rank), shape))
      ++times[static_cast<size_t>(element)];
  return times;
}

void expect_once(const Layout& layout, const Shape& shape) {
  for (const int times : times_saved(layout, shape)) ASSERT_EQ(times, 1) << layout.name;
}

TEST(SavedSlice, HasEachElementOnceInEveryLayout) {
  for (const Layout& layout : all_layouts())
    for (const Shape& shape : {Shape{13, 7}, Shape{1}, Shape{101}, Shape{5, 3, 11}})
      expect_once(layout, shape);
}

TEST(SavedSlice, HasEachElementOnceOnADividedAxis) {
  Mesh mesh({{"pipeline", 3}, {"data", 6}, {"tensor", 2}});
  mesh.divide("data", 3);
  // sharded inside the groups of 3, copied between them; by tensor partial sums
  const Layout inner{
      "inner", mesh, [mesh](const Shape& shape, int rank) {
        const Box box = Box::whole(shape);
        const int64_t i = mesh.coordinate(rank, "data.inner"), n = box.num_elements();
        return Placement{box,
                         Piece{Piece::Unit::element, n * i / 3, n * (i + 1) / 3},
                         {{"data.inner", AxisKind::shard}, {"tensor", AxisKind::partial}}};
      }};
  expect_once(inner, {19, 17});
  // the whole axis named: its parts are shards too
  const Layout outer{"outer", mesh, [mesh](const Shape& shape, int rank) {
                       const Box box = Box::whole(shape);
                       const int64_t i = mesh.coordinate(rank, "data"), n = box.num_elements();
                       return Placement{box,
                                        Piece{Piece::Unit::element, n * i / 6, n * (i + 1) / 6},
                                        {{"data", AxisKind::shard}}};
                     }};
  expect_once(outer, {19, 17});
}

TEST(SavedSlice, OfEqualCopiesIsAShareThatBeginsAtAMultipleOf16) {
  const Layout layout = replicated(3);
  const auto share = [&](const Shape& shape, int rank) {
    const Slice slice = saved_slice(layout.place(shape, rank), layout.mesh, rank);
    return std::pair(slice.begin, slice.end);
  };
  EXPECT_EQ(share({100}, 0), std::pair(int64_t{0}, int64_t{48}));
  EXPECT_EQ(share({100}, 1), std::pair(int64_t{48}, int64_t{96}));
  EXPECT_EQ(share({100}, 2), std::pair(int64_t{96}, int64_t{100}));
  EXPECT_EQ(share({16}, 1), std::pair(int64_t{16}, int64_t{16}));  // nothing is left
}

TEST(SavedSlice, OfIndependentValuesIsAllThatARankHas) {
  const Mesh mesh({{"data", 2}});
  const Placement placement{Box::whole({20}), {}, {{"data", AxisKind::independent}}};
  for (const int rank : {0, 1}) EXPECT_EQ(saved_slice(placement, mesh, rank).num_elements(), 20);
}

}  // namespace
}  // namespace cleave::test
