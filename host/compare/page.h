#pragma once

#include <string>

#include "compare/result.h"

namespace cleave {

/// index.html: the comparison as one page that needs nothing else, for wide and narrow, light and
/// dark screens. Well-formed XML too.
std::string compare_page(const CompareResult& result);

/// A row's figures in words, as the page and the console have them; empty without figures.
struct FigureTexts {
  std::string tokens_per_s, speed_up, efficiency, exposed, sent, memory, resident, loss;
};
FigureTexts figure_texts(const RowResult& row, const CompareResult& result);

}  // namespace cleave
