#include "core/plan_report.h"

#include <gtest/gtest.h>

#include <sstream>

#include "support/tiny_run.h"

namespace cleave {
namespace {

TEST(PlanReport, ShowsThePartsOfADividedAxis) {
  const test::TemporaryFolder folder;
  const RunConfig config = test::tiny_config(folder);
  Model model(config);
  for (Parameter* parameter : model.parameters)
    parameter->value_placement.axes = {{"data.inner", AxisKind::shard}};
  Mesh mesh({{"pipeline", 1}, {"data", 6}, {"tensor", 2}});
  mesh.divide("data", 3);
  SolvedPlan plan;
  plan.communication = {{"ddp", {"data.inner", CLEAVE_ALL_GATHER, at::kFloat, 10}}};
  std::ostringstream out;
  print_layout(out, mesh, model, plan);
  for (const char* text :
       {"\n  rank  pipeline  data.outer  data.inner  tensor\n",
        "\n     9         0           1           1       1\n",
        "parameters      data.outer replicate, data.inner shard, tensor replicate",
        "all_gather of Float along data.inner, 4 group(s) of 3, rank 0's is {0, 2, 4}"})
    EXPECT_NE(out.str().find(text), std::string::npos) << text << out.str();
}

}  // namespace
}  // namespace cleave
