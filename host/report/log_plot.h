// Lines over message sizes, both axes logarithmic, as an SVG that stands alone.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cleave {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< bytes, value; both positive, by bytes
};

struct LogPlot {
  std::string title;  ///< what is plotted, with its unit
  std::vector<PlotSeries> series;
};

/// The plots below each other, one legend for all: a series has the same place in each. Wide enough
/// for a phone held upright, in letters that can be read there.
std::string draw_log_plots(const std::string& heading, const std::vector<LogPlot>& plots);

}  // namespace cleave
