#include "log_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace cleave {

namespace {

// Pixels of a drawing that is as wide as a phone's screen.
constexpr double kWidth = 420;
constexpr double kLeft = 58, kRight = 26;
constexpr double kHeadingHeight = 30;
constexpr double kPlotHeight = 300, kTitleHeight = 26, kAxisHeight = 26;
constexpr double kLegendRow = 20;
constexpr int kLegendColumns = 3;
// Okabe and Ito's colours, which people who don't see all colours can tell apart
constexpr const char* kColors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                   "#e69f00", "#56b4e9", "#000000"};

const char* color(size_t series) {
  return kColors[series % std::size(kColors)];
}

struct Range {
  double low = std::numeric_limits<double>::max();
  double high = 0;
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_empty() const { return high == 0; }
  double place(double value) const {
    return high == low ? 0.5 : std::log(value / low) / std::log(high / low);
  }
};

std::string number(double value) {
  std::ostringstream text;
  if (value >= 1e6)  // within the margin
    text << value * 1e-6 << " M";
  else
    text << value;
  return text.str();
}

std::string size_label(double bytes) {
  const char* units[] = {" B", " K", " M", " G"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
  return number(bytes) + units[unit];
}

class Drawing {
 public:
  void line(double x1, double y1, double x2, double y2, const char* stroke) {
    svg_ << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2
         << "\" stroke=\"" << stroke << "\"/>\n";
  }
  void text(double x, double y, const std::string& words, const char* anchor, int size = 13) {
    svg_ << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor
         << "\" font-size=\"" << size << "\">" << words << "</text>\n";
  }
  void curve(const std::vector<std::pair<double, double>>& points, const char* stroke) {
    svg_ << "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"" << stroke << "\" points=\"";
    for (const auto& [x, y] : points) svg_ << x << "," << y << " ";
    svg_ << "\"/>\n";
    for (const auto& [x, y] : points)
      svg_ << "<circle cx=\"" << x << "\" cy=\"" << y << "\" r=\"3\" fill=\"" << stroke << "\"/>\n";
  }
  std::string finish(double height) const {
    std::ostringstream all;
    all << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kWidth << " " << height
        << "\" width=\"100%\" style=\"max-width:" << 2 * kWidth
        << "px\" font-family=\"sans-serif\">\n<rect width=\"" << kWidth << "\" height=\"" << height
        << "\" fill=\"white\"/>\n"
        << svg_.str() << "</svg>\n";
    return all.str();
  }

 private:
  std::ostringstream svg_;
};

void draw_plot(Drawing& drawing, const LogPlot& plot, double top) {
  Range sizes, values;
  for (const PlotSeries& series : plot.series)
    for (const auto& [bytes, value] : series.points) {
      sizes.include(bytes);
      values.include(value);
    }
  drawing.text(kLeft, top + 17, plot.title, "start", 15);
  if (sizes.is_empty()) return;
  values.low = std::pow(10, std::floor(std::log10(values.low)));
  values.high = std::pow(10, std::ceil(std::log10(values.high) + 1e-9));
  const double bottom = top + kPlotHeight - kAxisHeight, head = top + kTitleHeight;
  const auto x = [&](double bytes) {
    return kLeft + 6 + sizes.place(bytes) * (kWidth - kLeft - kRight - 12);
  };
  const auto y = [&](double value) { return bottom - values.place(value) * (bottom - head); };
  for (double tick = values.low; tick < values.high * 1.01; tick *= 10) {
    drawing.line(kLeft, y(tick), kWidth - kRight, y(tick), "#dddddd");
    drawing.text(kLeft - 6, y(tick) + 4, number(tick), "end");
  }
  for (double tick = 1; tick <= sizes.high; tick *= 16) {
    if (tick < sizes.low) continue;
    drawing.line(x(tick), head, x(tick), bottom, "#eeeeee");
    drawing.text(x(tick), bottom + 17, size_label(tick), "middle");
  }
  for (size_t i = 0; i < plot.series.size(); ++i) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [bytes, value] : plot.series[i].points)
      points.emplace_back(x(bytes), y(value));
    drawing.curve(points, color(i));
  }
}

}  // namespace

std::string draw_log_plots(const std::string& heading, const std::vector<LogPlot>& plots) {
  Drawing drawing;
  drawing.text(kWidth / 2, 20, heading, "middle", 15);
  double top = kHeadingHeight;
  const size_t num_series = plots.empty() ? 0 : plots.front().series.size();
  for (size_t i = 0; i < num_series; ++i) {
    const double left = 14 + (i % kLegendColumns) * (kWidth - 28) / kLegendColumns;
    const double middle = top + kLegendRow * static_cast<double>(i / kLegendColumns) + 10;
    drawing.curve({{left, middle}, {left + 20, middle}}, color(i));
    drawing.text(left + 26, middle + 4, plots.front().series[i].name, "start");
  }
  top += kLegendRow * static_cast<double>((num_series + kLegendColumns - 1) / kLegendColumns) + 8;
  for (const LogPlot& plot : plots) {
    draw_plot(drawing, plot, top);
    top += kPlotHeight + 8;
  }
  return drawing.finish(top);
}

}  // namespace cleave
