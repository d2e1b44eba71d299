#include "cleave/balance.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "cleave/error.h"

namespace cleave {

namespace {

using Combine = std::function<double(double so_far, double part)>;

// Where each part begins in the cut whose combined value is least; of equals the latest cuts.
std::vector<int> best_cut(const std::vector<double>& sums, int parts, const Combine& combine) {
  const int n = static_cast<int>(sums.size()) - 1;
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(parts + 1, std::vector<double>(n + 1, infinity));
  std::vector<std::vector<int>> begin(parts + 1, std::vector<int>(n + 1, 0));
  best[0][0] = 0;
  for (int k = 1; k <= parts; ++k)
    for (int i = k; i <= n; ++i)
      for (int j = k - 1; j < i; ++j) {
        const double value = combine(best[k - 1][j], sums[i] - sums[j]);
        if (value > best[k][i]) continue;
        best[k][i] = value;
        begin[k][i] = j;
      }
  std::vector<int> begins(parts + 1, n);
  for (int k = parts; k > 0; --k) begins[k - 1] = begin[k][begins[k]];
  return begins;
}

}  // namespace

std::vector<int> balance(const std::vector<double>& costs, int parts) {
  const int n = static_cast<int>(costs.size());
  CLEAVE_CHECK(parts >= 1 && n >= parts, n, " items in ", parts, " parts");
  std::vector<double> sums(n + 1, 0);
  for (int i = 0; i < n; ++i) sums[i + 1] = sums[i] + costs[i];
  std::vector<int> begins =
      best_cut(sums, parts, [](double a, double b) { return std::max(a, b); });
  double highest = 0;
  for (int k = 0; k < parts; ++k)
    highest = std::max(highest, sums[begins[k + 1]] - sums[begins[k]]);
  const double limit = highest * (1 + 1e-12);
  begins = best_cut(sums, parts, [&](double a, double b) {
    return b > limit ? std::numeric_limits<double>::infinity() : a + b * b;
  });
  std::vector<int> counts(parts);
  for (int k = 0; k < parts; ++k) counts[k] = begins[k + 1] - begins[k];
  return counts;
}

}  // namespace cleave
