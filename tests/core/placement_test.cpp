#include "cleave/placement.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

TEST(Placement, WholeBoxHoldsEveryElement) {
  const Placement placement{Box::whole({7, 5, 3}), {}, {}};
  EXPECT_EQ(placement.num_elements(), 105);
  EXPECT_EQ(placement.box.shape(), (std::vector<int64_t>{7, 5, 3}));
}

TEST(Placement, AxesThatAreNotNamedReplicate) {
  Placement placement{Box::whole({4}), {}, {{"data", AxisKind::partial}}};
  EXPECT_EQ(placement.kind("data"), AxisKind::partial);
  EXPECT_EQ(placement.kind("tensor"), AxisKind::replicate);
}

TEST(Placement, BoxesThatCutADimCoverTheTensor) {
  int64_t total = 0;
  for (int64_t part = 0; part < 3; ++part) {
    const Placement placement{{{part * 7 / 3, 0}, {(part + 1) * 7 / 3, 5}}, {}, {}};
    total += placement.num_elements();
  }
  EXPECT_EQ(total, 35);
}

TEST(Placement, PiecesAreRowsOrElementsOfTheBox) {
  const Box box{{2, 0}, {6, 5}};  // 4 rows of 5
  EXPECT_EQ((Placement{box, Piece{Piece::Unit::row, 1, 3}, {}}.num_elements()), 10);
  EXPECT_EQ((Placement{box, Piece{Piece::Unit::element, 3, 17}, {}}.num_elements()), 14);
  EXPECT_EQ((Placement{box, Piece{Piece::Unit::row, 4, 4}, {}}.num_elements()), 0);
}

TEST(Placement, EmptyBoxHasNoElements) {
  const Placement placement{{{3, 0}, {3, 5}}, Piece{Piece::Unit::row, 0, 0}, {}};
  EXPECT_EQ(placement.num_elements(), 0);
}

}  // namespace
}  // namespace cleave
