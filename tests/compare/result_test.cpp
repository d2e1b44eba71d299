// Medians, spread, speed-up and rank of the rows.
#include "compare/result.h"

#include <gtest/gtest.h>

#include "compare/console.h"
#include "result_fixture.h"

namespace cleave::test {
namespace {

TEST(CompareFigures, AreMediansWithoutTheFirstStepsAndTheirRange) {
  const CompareResult result = result_of({row("a", 1, {1000, 1100, 900}), row("b", 2, {1500})});
  const auto one = figures_of(result.rows[0], result);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->tokens_per_s.median, 1000);
  EXPECT_EQ(one->tokens_per_s.low, 900);
  EXPECT_EQ(one->tokens_per_s.high, 1100);
  EXPECT_EQ(one->peak_memory_mib, 20);
  EXPECT_EQ(one->resident_mib, 100);
  EXPECT_EQ(one->wire_bytes.median, 1048576);
  EXPECT_EQ(one->loss.median, 4);
  EXPECT_EQ(one->speed_up, 1.0);
  const auto two = figures_of(result.rows[1], result);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->speed_up, 1.5);
  EXPECT_EQ(two->efficiency, 0.75);
}

TEST(CompareFigures, HaveNoSpeedUpWithoutOneRank) {
  const CompareResult result = result_of({row("a", 1, {}), row("b", 2, {1500})});
  EXPECT_FALSE(figures_of(result.rows[0], result));
  const auto two = figures_of(result.rows[1], result);
  ASSERT_TRUE(two);
  EXPECT_FALSE(two->speed_up);
}

TEST(CompareFigures, RankTheRowsOfAGroupAndKeepThoseWithoutFiguresLast) {
  const CompareResult result =
      result_of({row("a", 1, {900}), row("b", 2, {}), row("c", 2, {1000, 1400}),
                 row("d", 2, {1450, 1300}), row("e", 2, {100}), row("f", 3, {50})});
  std::string order;
  for (const RowResult* row : ranked(result)) order += row->row.backend;
  EXPECT_EQ(order, "adcebf");
  const std::vector<std::string> lines = verdicts(result);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0],
            "fastest on 2 ranks: d, ddp: 1,375 tokens/s, 1.53 x one rank; not to be told from it "
            "(ranges overlap): c, ddp");
  EXPECT_EQ(lines[1], "fastest on 3 ranks: f, ddp: 50 tokens/s, 0.06 x one rank");
}

TEST(CompareProgress, CountsWhatIsLeftByWhatItTook) {
  CompareResult result = result_of({row("a", 1, {}), row("b", 2, {}), row("c", 2, {})});
  EXPECT_LT(seconds_left(result, 1, 0), 0);
  result.rows[0] = row("a", 1, {1000});                          // 2.5 s
  EXPECT_EQ(seconds_left(result, 1, 1), 2 * 2.5 + 3 * 2 * 2.5);  // a twice more, the others 3 times
  result.rows[1].status = RowStatus::refused;
  EXPECT_EQ(seconds_left(result, 1, 2), 2 * 2.5 + 3 * 2.5);
}

}  // namespace
}  // namespace cleave::test
