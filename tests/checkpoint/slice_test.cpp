#include "checkpoint/slice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "checkpoint_fixture.h"

namespace cleave::test {
namespace {

class Random {
 public:
  int64_t operator()(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine_);
  }

  std::vector<int64_t> shape(size_t dims) {
    std::vector<int64_t> shape;
    for (size_t d = 0; d < dims; ++d) shape.push_back((*this)(1, 5));
    return shape;
  }

  /// Of a random box of the shape, or of all of it.
  Slice slice(const std::vector<int64_t>& shape) {
    Box box = Box::whole(shape);
    for (size_t d = 0; d < shape.size() && (*this)(0, 3) > 0; ++d) {
      box.begin[d] = (*this)(0, shape[d]);
      box.end[d] = (*this)(box.begin[d], shape[d]);
    }
    const int64_t begin = (*this)(0, box.num_elements());
    return {box, begin, (*this)(begin, box.num_elements())};
  }

 private:
  std::mt19937 engine_{7};
};

TEST(Slice, ConsistsOfFewBoxesInItsOrder) {
  Random random;
  for (int i = 0; i < 4000; ++i) {
    const std::vector<int64_t> shape = random.shape(static_cast<size_t>(i % 5));
    const Slice slice = random.slice(shape);
    const std::vector<Box> boxes = boxes_of(slice);
    EXPECT_LE(boxes.size(), std::max<size_t>(1, 2 * shape.size() - 1));
    EXPECT_EQ(boxes.empty(), slice.num_elements() == 0);
    std::vector<int64_t> elements;
    for (const Box& box : boxes)
      for (const int64_t element : elements_of({box, 0, box.num_elements()}, shape))
        elements.push_back(element);
    ASSERT_EQ(elements, elements_of(slice, shape));
  }
}

TEST(Slice, OfAScalarIsOneBoxOrNone) {
  const Slice scalar = Slice::whole({});
  EXPECT_EQ(scalar.num_elements(), 1);
  EXPECT_EQ(boxes_of(scalar).size(), 1u);
  EXPECT_TRUE(boxes_of({scalar.box, 0, 0}).empty());
}

TEST(Slice, HasTheBoxsShapeWhereItIsAllOfIt) {
  const Box box{{1, 2}, {4, 4}};
  EXPECT_EQ((Slice{box, 0, 6}.shape()), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ((Slice{box, 2, 6}.shape()), (std::vector<int64_t>{4}));
}

TEST(Slice, OfARowPieceCountsElements) {
  const Placement placement{{{0, 5}, {9, 9}}, Piece{Piece::Unit::row, 2, 5}, {}};
  EXPECT_EQ(slice_of(placement), (Slice{placement.box, 8, 20}));
  const Placement empty{{{3, 5}, {3, 9}}, Piece{Piece::Unit::row, 0, 0}, {}};
  EXPECT_EQ(slice_of(empty).num_elements(), 0);
}

TEST(CommonRuns, AreTheElementsThatBothSlicesHave) {
  Random random;
  for (int i = 0; i < 4000; ++i) {
    const std::vector<int64_t> shape = random.shape(static_cast<size_t>(i % 5));
    const Slice from = random.slice(shape), to = random.slice(shape);
    const std::vector<int64_t> source = elements_of(from, shape), target = elements_of(to, shape);
    std::map<int64_t, int64_t> expected, found;  // place in `to`, place in `from`
    for (size_t t = 0; t < target.size(); ++t)
      if (const auto s = std::find(source.begin(), source.end(), target[t]); s != source.end())
        expected[static_cast<int64_t>(t)] = s - source.begin();
    for_each_common_run(from, to, [&](const CommonRun& run) {
      EXPECT_GE(run.count, 1);
      for (int64_t k = 0; k < run.count; ++k)
        EXPECT_TRUE(found.emplace(run.to + k, run.from + k).second) << "visited twice";
    });
    ASSERT_EQ(found, expected);
  }
}

TEST(CommonRuns, AreLongWhereTrailingDimsCoincide) {
  const auto runs = [](const Slice& from, const Slice& to) {
    std::vector<int64_t> counts;
    for_each_common_run(from, to, [&](const CommonRun& run) { counts.push_back(run.count); });
    return counts;
  };
  const Slice whole = Slice::whole({6, 5, 7});
  EXPECT_EQ(runs(whole, whole), (std::vector<int64_t>{210}));
  const Slice rows{{{2, 0, 0}, {4, 5, 7}}, 0, 70};
  EXPECT_EQ(runs(whole, rows), (std::vector<int64_t>{70}));
  const Slice columns{{{0, 0, 3}, {6, 5, 7}}, 0, 120};
  EXPECT_EQ(runs(whole, columns), std::vector<int64_t>(30, 4));
  EXPECT_EQ(runs(columns, columns), (std::vector<int64_t>{120}));
}

}  // namespace
}  // namespace cleave::test
