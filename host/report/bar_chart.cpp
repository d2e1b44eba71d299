#include "bar_chart.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "markup.h"

namespace cleave {
namespace {

// Pixels.
constexpr double kWidth = 420, kLeft = 4;
constexpr double kLongestBar = 290;  // the notes need the rest
constexpr double kRowHeight = 40, kBarTop = 20, kBarHeight = 13;

std::string text(double x, double y, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x, y, escape_markup(words));
}

std::string range(double low, double high, double middle) {
  return fmt::format(
      "<path d=\"M{0:.1f} {2:.1f}H{1:.1f}M{0:.1f} {3:.1f}V{4:.1f}M{1:.1f} {3:.1f}V{4:.1f}\" "
      "style=\"stroke:var(--range);fill:none\"/>\n",
      low, high, middle, middle - 4, middle + 4);
}

}  // namespace

std::string draw_bars(const std::string& title, const std::vector<Bar>& bars) {
  double most = 0;
  for (const Bar& bar : bars) most = std::max({most, bar.value, bar.high});
  const auto place = [&](double value) {
    return most > 0 ? kLeft + value / most * kLongestBar : kLeft;
  };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{}\" "
      "viewBox=\"0 0 {:.0f} {:.0f}\" width=\"100%\" style=\"max-width:{:.0f}px\" "
      "font-size=\"13\" fill=\"currentColor\">\n",
      escape_markup(title), kWidth, kRowHeight * static_cast<double>(bars.size()), 1.6 * kWidth);
  double top = 0;
  for (const Bar& bar : bars) {
    const double middle = top + kBarTop + kBarHeight / 2;
    svg += text(kLeft, top + 14, bar.label);
    double note_left = kLeft;
    if (bar.value > 0) {
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
          "style=\"fill:var(--bar)\"/>"
          "\n",
          kLeft, top + kBarTop, place(bar.value) - kLeft, kBarHeight);
      if (bar.high > bar.low) svg += range(place(bar.low), place(bar.high), middle);
      note_left = place(std::max(bar.value, bar.high)) + 6;
    }
    svg += text(note_left, middle + 5, bar.note);
    top += kRowHeight;
  }
  return svg + "</svg>\n";
}

}  // namespace cleave
