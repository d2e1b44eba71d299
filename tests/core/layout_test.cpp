#include "core/layout.h"

#include <gtest/gtest.h>

#include "cleave/error.h"

namespace cleave {
namespace {

RunConfig config_with(std::map<std::string, int> mesh) {
  RunConfig config{};
  config.file = "run.toml";
  config.mesh = std::move(mesh);
  config.train.global_batch_size = 32;
  config.train.micro_batch_size = 4;
  return config;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Mesh, TensorIsInnermostAndPipelineOutermost) {
  const Mesh mesh = make_mesh(config_with({{"tensor", 2}, {"pipeline", 2}, {"data", 2}}), 8);
  EXPECT_EQ(mesh.to_string(), "pipeline 2 x data 2 x tensor 2");
  EXPECT_EQ(mesh.group(5, "tensor"), (std::vector<int>{4, 5}));
  EXPECT_EQ(mesh.group(5, "data"), (std::vector<int>{5, 7}));
  EXPECT_EQ(mesh.group(5, "pipeline"), (std::vector<int>{1, 5}));
  EXPECT_EQ(mesh.coordinate(6, "pipeline"), 1);
  EXPECT_EQ(mesh.coordinate(6, "data"), 1);
  EXPECT_EQ(mesh.coordinate(6, "tensor"), 0);
}

TEST(Mesh, EveryRankIsInExactlyOneGroupPerAxis) {
  const Mesh mesh({{"pipeline", 3}, {"data", 2}, {"replica", 2}, {"tensor", 2}});
  for (const MeshAxis& axis : mesh.axes())
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
      const auto group = mesh.group(rank, axis.name);
      EXPECT_EQ(group[mesh.coordinate(rank, axis.name)], rank);
      for (int member : group) EXPECT_EQ(mesh.group(member, axis.name), group);
    }
}

TEST(Mesh, InfersDataFromTheRanks) {
  EXPECT_EQ(make_mesh(config_with({}), 3).size("data"), 3);
  EXPECT_EQ(make_mesh(config_with({{"tensor", 2}}), 6).size("data"), 3);
}

TEST(Mesh, RefusesAProductThatIsNotTheNumberOfRanks) {
  const auto error = error_of([] { make_mesh(config_with({{"data", 3}, {"tensor", 2}}), 4); });
  EXPECT_NE(error.find("data 3 x tensor 2 = 6, but there are 4 ranks"), std::string::npos) << error;
}

TEST(Mesh, RefusesAnInferredAxisThatDoesNotDivide) {
  const auto error = error_of([] { make_mesh(config_with({{"tensor", 3}}), 4); });
  EXPECT_NE(error.find("tensor 3 = 3 does not divide 4 ranks"), std::string::npos) << error;
}

TEST(Batch, EquationGivesMicroBatches) {
  EXPECT_EQ(num_micro_batches(config_with({}), make_mesh(config_with({}), 2)), 4);
}

TEST(Batch, RefusesAnIndivisibleGlobalBatchWithWorkingSizes) {
  const RunConfig config = config_with({});
  const auto error = error_of([&] { num_micro_batches(config, make_mesh(config, 3)); });
  EXPECT_NE(error.find("= 32 is not a multiple of micro_batch_size 4 x data 3 = 12; use 24 or 36"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace cleave
