// Bars below each other, as an SVG inside a page.
#pragma once

#include <string>
#include <vector>

namespace cleave {

struct Bar {
  std::string label;         ///< stands above the bar
  double value = 0;          ///< not negative; 0: no bar, the note alone
  double low = 0, high = 0;  ///< the range of `value`, drawn over its end
  std::string note;          ///< stands behind the bar
};

/// As wide as a phone's screen, in letters that can be read there. Takes its colours from the page:
/// --bar, --range and the text's.
std::string draw_bars(const std::string& title, const std::vector<Bar>& bars);

}  // namespace cleave
