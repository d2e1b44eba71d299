// The picture that host bench draws.
#include "report/log_plot.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

TEST(LogPlot, DrawsEachSeriesInEachPlotAndNamesItOnce) {
  const PlotSeries one{"all_reduce", {{8, 1.5}, {4096, 6}, {1 << 20, 300}}};
  const PlotSeries two{"broadcast", {{8, 2}, {1 << 20, 150}}};
  const std::string svg = draw_log_plots("2 ranks", {{"GB/s", {one, two}}, {"us", {one, two}}});
  EXPECT_EQ(count(svg, "<polyline"), 2u + 4u);  // the legend's, then the plots'
  EXPECT_EQ(count(svg, ">all_reduce<"), 1u);
  EXPECT_EQ(count(svg, ">4 K<"), 2u);
  EXPECT_EQ(count(svg, ">1000<"), 2u);
  EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0u);
}

TEST(LogPlot, OnePointOrNoneIsNoTrouble) {
  const std::string svg =
      draw_log_plots("1 rank", {{"GB/s", {{"barrier", {}}}}, {"us", {{"barrier", {{64, 10}}}}}});
  EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0u);
  EXPECT_EQ(count(svg, "</svg>"), 1u);
}

}  // namespace
}  // namespace cleave
