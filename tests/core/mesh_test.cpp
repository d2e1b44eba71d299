// A divided axis: 6 data ranks in groups of 3, each of 2 tensor ranks.
#include "cleave/mesh.h"

#include <gtest/gtest.h>

#include "cleave/error.h"

namespace cleave {
namespace {

class DividedMesh : public testing::Test {
 protected:
  DividedMesh() : mesh_({{"pipeline", 1}, {"data", 6}, {"tensor", 2}}) { mesh_.divide("data", 3); }
  Mesh mesh_;
};

TEST_F(DividedMesh, PartsMultiplyToTheAxis) {
  EXPECT_EQ(mesh_.size("data"), 6);
  EXPECT_EQ(mesh_.size("data.inner"), 3);
  EXPECT_EQ(mesh_.size("data.outer"), 2);
  EXPECT_EQ(mesh_.size("tensor.inner"), 1);
  EXPECT_TRUE(mesh_.has_axis("data.inner") && mesh_.has_axis("data.outer"));
  EXPECT_FALSE(mesh_.has_axis("tensor.inner") || mesh_.has_axis("data.middle"));
}

TEST_F(DividedMesh, InnerGroupsAreNeighboursAlongTheAxis) {
  EXPECT_EQ(mesh_.group(0, "data.inner"), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(mesh_.group(9, "data.inner"), (std::vector<int>{7, 9, 11}));
}

TEST_F(DividedMesh, OuterGroupsHoldTheSamePlaceOfEachInnerGroup) {
  EXPECT_EQ(mesh_.group(0, "data.outer"), (std::vector<int>{0, 6}));
  EXPECT_EQ(mesh_.group(9, "data.outer"), (std::vector<int>{3, 9}));
  EXPECT_EQ(mesh_.group(9, "data"), (std::vector<int>{1, 3, 5, 7, 9, 11}));
}

TEST_F(DividedMesh, CoordinatesOfThePartsGiveThatOfTheAxis) {
  for (int rank = 0; rank < mesh_.world_size(); ++rank) {
    EXPECT_EQ(mesh_.coordinate(rank, "data"),
              3 * mesh_.coordinate(rank, "data.outer") + mesh_.coordinate(rank, "data.inner"));
    for (const char* axis : {"data", "data.inner", "data.outer", "tensor", "pipeline"}) {
      const std::vector<int> group = mesh_.group(rank, axis);
      EXPECT_EQ(static_cast<int>(group.size()), mesh_.size(axis));
      EXPECT_EQ(group[mesh_.coordinate(rank, axis)], rank) << axis;
      for (int member : group) EXPECT_EQ(mesh_.group(member, axis), group) << axis;
    }
  }
}

TEST_F(DividedMesh, LeavesReplaceTheAxisFromOutermostToInnermost) {
  std::string leaves;
  for (const MeshAxis& axis : mesh_.leaf_axes())
    leaves += axis.name + " " + std::to_string(axis.size) + " ";
  EXPECT_EQ(leaves, "pipeline 1 data.outer 2 data.inner 3 tensor 2 ");
  EXPECT_EQ(mesh_.axes().size(), 3u);
  EXPECT_EQ(mesh_.to_string(), "pipeline 1 x data 6 x tensor 2");
}

TEST_F(DividedMesh, RefusesGroupsThatDoNotDivideTheAxis) {
  EXPECT_THROW(mesh_.divide("data", 4), RuntimeError);
  EXPECT_THROW(mesh_.divide("data", 0), RuntimeError);
  EXPECT_THROW(mesh_.divide("nowhere", 1), RuntimeError);
}

}  // namespace
}  // namespace cleave
