#include "compare/result.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "report/console_line.h"
#include "report/run_summary.h"

namespace cleave {
namespace {

// Of the values, one of each repetition.
Spread spread(const RowResult& row, const std::function<double(const RunFigures&)>& value) {
  std::vector<double> values;
  for (const Repetition& repetition : row.repetitions) values.push_back(value(repetition.figures));
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {percentile(values, 0.5), *low, *high};
}

double median_step(const std::vector<double>& steps, int64_t skipped) {
  return percentile({steps.begin() + skipped, steps.end()}, 0.5);
}

double largest(const RowResult& row, std::vector<double> RunFigures::*values) {
  double most = 0;
  for (const Repetition& repetition : row.repetitions)
    for (const double value : repetition.figures.*values) most = std::max(most, value);
  return most;
}

RowFigures measured(const RowResult& row, int64_t skipped) {
  const auto over_steps = [&](std::vector<double> RunFigures::*values) {
    return spread(row, [&](const RunFigures& run) { return median_step(run.*values, skipped); });
  };
  return {over_steps(&RunFigures::tokens_per_s),
          over_steps(&RunFigures::step_ms),
          over_steps(&RunFigures::exposed_ms),
          over_steps(&RunFigures::wire_bytes),
          spread(row, [](const RunFigures& run) { return run.loss.back(); }),
          largest(row, &RunFigures::peak_memory_mib),
          largest(row, &RunFigures::resident_mib),
          {},
          {}};
}

}  // namespace

const char* to_string(RowStatus status) {
  switch (status) {
    case RowStatus::waiting:
      return "not run";
    case RowStatus::done:
      return "done";
    case RowStatus::refused:
      return "refused";
    case RowStatus::skipped:
      return "skipped";
    case RowStatus::failed:
      break;
  }
  return "failed";
}

std::optional<RowFigures> figures_of(const RowResult& row, const CompareResult& result) {
  if (row.repetitions.empty()) return std::nullopt;
  RowFigures figures = measured(row, result.config.skipped_steps);
  const RowResult& base = result.rows.front();
  if (!base.repetitions.empty()) {
    figures.speed_up = figures.tokens_per_s.median /
                       measured(base, result.config.skipped_steps).tokens_per_s.median;
    figures.efficiency = *figures.speed_up / static_cast<double>(row.row.ranks);
  }
  return figures;
}

std::vector<const RowResult*> ranked(const CompareResult& result) {
  std::vector<const RowResult*> rows;
  for (const RowResult& row : result.rows) rows.push_back(&row);
  const auto speed = [&](const RowResult* row) {
    const auto figures = figures_of(*row, result);
    return figures ? figures->tokens_per_s.median : -1;
  };
  for (auto begin = rows.begin(); begin != rows.end();) {
    const auto end = std::find_if(begin, rows.end(), [&](const RowResult* row) {
      return group_label(row->row) != group_label((*begin)->row);
    });
    std::stable_sort(begin, end,
                     [&](const RowResult* a, const RowResult* b) { return speed(a) > speed(b); });
    begin = end;
  }
  return rows;
}

std::vector<std::string> verdicts(const CompareResult& result) {
  std::vector<std::string> lines;
  std::string group;
  std::optional<RowFigures> best;
  bool has_equals = false;
  for (const RowResult* row : ranked(result)) {
    const auto figures = figures_of(*row, result);
    if (row->row.is_base || !figures) continue;
    const std::string name = short_label(row->row);
    if (std::exchange(group, group_label(row->row)) != group_label(row->row)) {
      best = figures;
      has_equals = false;
      lines.push_back(fmt::format("fastest on {}: {}: {} tokens/s", group, name,
                                  format_count(figures->tokens_per_s.median)));
      if (figures->speed_up) lines.back() += fmt::format(", {:.2f} x one rank", *figures->speed_up);
    } else if (figures->tokens_per_s.high >= best->tokens_per_s.low) {
      const char* separator =
          std::exchange(has_equals, true) ? "; " : "; not to be told from it (ranges overlap): ";
      lines.back() += separator + name;
    }
  }
  return lines;
}

}  // namespace cleave
