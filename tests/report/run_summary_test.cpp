#include "report/run_summary.h"

#include "report_fixture.h"

namespace cleave {
namespace {

bool contains(const RunSummary& summary, const std::string& text) {
  return summary.to_string().find(text) != std::string::npos;
}

TEST(Percentile, InterpolatesBetweenNeighbours) {
  EXPECT_EQ(percentile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(percentile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_EQ(percentile({7}, 0.95), 7);
  EXPECT_EQ(percentile({1, 2}, 1.0), 2);
}

TEST(RunSummary, LeavesTheFirstStepOut) {
  RunSummary summary(make_facts(4));
  for (double ms : {900.0, 100.0, 110.0, 120.0}) {
    StepRecord record = make_record(1);
    record.step_ms = ms;
    summary.add(record);
  }
  EXPECT_EQ(summary.mean_step_ms(), 110);
  EXPECT_TRUE(contains(summary, "p50 110.0 ms, p95 119.0 ms, max 120.0 ms (first step, 900.0 ms"))
      << summary.to_string();
  EXPECT_TRUE(contains(summary, "18,618 (median)")) << summary.to_string();
}

TEST(RunSummary, CountsTheOnlyStep) {
  RunSummary summary(make_facts(1));
  summary.add(make_record(1));
  EXPECT_TRUE(contains(summary, "p50 100.0 ms")) << summary.to_string();
  EXPECT_TRUE(contains(summary, "the only step, with warm-up")) << summary.to_string();
}

TEST(RunSummary, SaysSoWhenNoStepWasRun) {
  EXPECT_EQ(RunSummary(make_facts(0)).to_string(), "summary: no step was run\n");
}

TEST(RunSummary, PutsMeasuredMemoryBesidePredictedByCategory) {
  RunSummary summary(make_facts(2));
  StepRecord record = make_record(1);
  summary.add(record);
  record.memory_mib[1].mib = {70, 170};
  record.peak_memory_mib = {90, 200};  // the highest of each rank counts: 100, 200
  summary.add(record);
  for (const char* row : {"MiB of a rank   predicted  measured min  measured max\n",
                          " parameters          41.50         40.00         40.00\n",
                          " activations         60.00         70.00        170.00\n",
                          " total               96.25        100.00        200.00\n"})
    EXPECT_TRUE(contains(summary, row)) << row << summary.to_string();
}

TEST(RunSummary, ShowsHowEvenlyMemoryIsSpread) {
  RunSummary summary(make_facts(2));
  StepRecord record = make_record(1);
  record.peak_memory_mib = {100, 200};
  summary.add(record);
  EXPECT_TRUE(contains(summary,
                       "largest 200.0 MiB on rank 1, evenness 0.50 (smallest / largest of "
                       "2 ranks)"))
      << summary.to_string();
}

TEST(RunSummary, PutsMeasuredBytesBesidePredicted) {
  RunSummary summary(make_facts(2));
  StepRecord record = make_record(1);
  record.wire_bytes = 1500;
  summary.add(record);
  summary.add(record);
  EXPECT_TRUE(contains(summary, "predicted 1,000, measured 1,500 bytes a step and rank (+50.0 %)"))
      << summary.to_string();
}

std::string verdict(double exposed_ms, double data_ms, double bubble_fraction) {
  RunSummary summary(make_facts(1));
  StepRecord record = make_record(1);
  record.exposed_communication_ms = exposed_ms;
  record.data_ms = data_ms;
  if (bubble_fraction > 0) record.bubble_fraction = bubble_fraction;
  summary.add(record);
  const std::string text = summary.to_string();
  return text.substr(text.find("bound by"));
}

TEST(RunSummary, NamesWhatBoundsTheRun) {
  EXPECT_EQ(verdict(30, 5, 0),
            "bound by compute (65.0 % of the step), exposed communication 30.0 %, data 5.0 %\n");
  EXPECT_EQ(verdict(60, 5, 0),
            "bound by exposed communication (60.0 % of the step), compute 35.0 %, data 5.0 %\n");
  EXPECT_EQ(verdict(10, 70, 0),
            "bound by data (70.0 % of the step), compute 20.0 %, exposed communication 10.0 %\n");
  EXPECT_EQ(verdict(10, 5, 0.6),
            "bound by bubble (60.0 % of the step), compute 25.0 %, exposed communication 10.0 %, "
            "data 5.0 %\n");
}

}  // namespace
}  // namespace cleave
