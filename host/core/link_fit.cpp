#include "core/link_fit.h"

#include <algorithm>
#include <cmath>

namespace cleave {

namespace {

constexpr int kIterations = 30;
constexpr double kHuber = 1.345;  // in standard deviations; 95 % efficient on clean data
constexpr double kDeviationOfMedian = 1.4826;  // standard deviation / median, normal errors
constexpr double kSmallestScale = 1e-6;        // a perfect fit divides by it

struct Line {
  double alpha;
  double slope;  // us per byte
};

double relative_error(const Line& line, const TimedMessage& m) {
  return (m.us - line.alpha - line.slope * m.bytes) / m.us;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

Line weighted_line(const std::vector<TimedMessage>& messages, const std::vector<double>& weights) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    const double x = messages[i].bytes, y = messages[i].us, weight = weights[i] / (y * y);
    w += weight;
    wx += weight * x;
    wy += weight * y;
    wxx += weight * x * x;
    wxy += weight * x * y;
  }
  const double determinant = w * wxx - wx * wx;
  const Line line{(wxx * wy - wx * wxy) / determinant, (w * wxy - wx * wy) / determinant};
  return line.alpha >= 0 ? line : Line{0, wxy / wxx};
}

double median_error(const Line& line, const std::vector<TimedMessage>& messages) {
  std::vector<double> errors;
  for (const TimedMessage& m : messages) errors.push_back(std::abs(relative_error(line, m)));
  return median(errors);
}

}  // namespace

std::optional<LinkFit> fit_link(const std::vector<TimedMessage>& messages) {
  const auto by_bytes = [](const auto& a, const auto& b) { return a.bytes < b.bytes; };
  const auto [least, most] = std::minmax_element(messages.begin(), messages.end(), by_bytes);
  if (messages.size() < 2 || least->bytes == most->bytes) return std::nullopt;
  std::vector<double> weights(messages.size(), 1.0);
  Line line = weighted_line(messages, weights);
  for (int i = 0; i < kIterations; ++i) {
    const double scale =
        std::max(kSmallestScale, kDeviationOfMedian * median_error(line, messages));
    for (size_t k = 0; k < messages.size(); ++k)
      weights[k] = std::min(1.0, kHuber * scale / std::abs(relative_error(line, messages[k])));
    line = weighted_line(messages, weights);
  }
  if (!(line.slope > 0)) return std::nullopt;
  return LinkFit{line.alpha, 1e-3 / line.slope, median_error(line, messages)};
}

}  // namespace cleave
