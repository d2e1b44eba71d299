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

TEST(Placement, PartsOfADividedAxisAreNamedOrFollowTheWhole) {
  const Placement whole{Box::whole({4}), {}, {{"data", AxisKind::shard}}};
  EXPECT_EQ(whole.kind("data.inner"), AxisKind::shard);
  EXPECT_EQ(whole.kind("data.outer"), AxisKind::shard);
  const Placement part{Box::whole({4}), {}, {{"data.inner", AxisKind::shard}}};
  EXPECT_EQ(part.kind("data.inner"), AxisKind::shard);
  EXPECT_EQ(part.kind("data.outer"), AxisKind::replicate);
}

/// The ranks that answer for what they hold.
std::vector<int> owners(const std::map<std::string, AxisKind>& axes, const Mesh& mesh) {
  std::vector<int> ranks;
  for (int rank = 0; rank < mesh.world_size(); ++rank)
    if (is_owner({Box::whole({4}), {}, axes}, mesh, rank)) ranks.push_back(rank);
  return ranks;
}

TEST(Placement, OwnerIsTheFirstOfEqualCopiesAlongEachPart) {
  Mesh mesh({{"data", 6}, {"tensor", 2}});
  mesh.divide("data", 3);
  EXPECT_EQ(owners({}, mesh), (std::vector<int>{0}));
  EXPECT_EQ(owners({{"data.inner", AxisKind::shard}}, mesh), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(owners({{"data.outer", AxisKind::shard}}, mesh), (std::vector<int>{0, 6}));
  EXPECT_EQ(owners({{"data", AxisKind::shard}}, mesh), (std::vector<int>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(owners({{"data.inner", AxisKind::shard}, {"tensor", AxisKind::shard}}, mesh),
            (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(Placement, EmptyBoxHasNoElements) {
  const Placement placement{{{3, 0}, {3, 5}}, Piece{Piece::Unit::row, 0, 0}, {}};
  EXPECT_EQ(placement.num_elements(), 0);
}

}  // namespace
}  // namespace cleave
