#include "compare/console.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "compare/page.h"
#include "report/console_line.h"

namespace cleave {
namespace {

using Cells = std::array<std::string, 8>;

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

Cells cells_of(const RowResult& row, const CompareResult& result) {
  const FigureTexts texts = figure_texts(row, result);
  return {label(row.row), texts.tokens_per_s, texts.speed_up, texts.efficiency,
          texts.exposed,  texts.sent,         texts.memory,   texts.loss};
}

// Seconds of a run of the row; those of any row when it has not run.
double typical_seconds(const RowResult& row, double of_any) {
  return row.repetitions.empty() ? of_any : row.repetitions.back().seconds;
}

}  // namespace

double seconds_left(const CompareResult& result, int64_t repetition, size_t first) {
  double sum = 0;
  int64_t count = 0;
  for (const RowResult& row : result.rows)
    for (const Repetition& done : row.repetitions) {
      sum += done.seconds;
      ++count;
    }
  if (count == 0) return -1;
  double left = 0;
  for (size_t i = 0; i < result.rows.size(); ++i) {
    const RowResult& row = result.rows[i];
    if (row.status != RowStatus::waiting && row.status != RowStatus::done) continue;
    const int64_t runs = result.config.repetitions - repetition + (i >= first ? 1 : 0);
    left += static_cast<double>(runs) * typical_seconds(row, sum / static_cast<double>(count));
  }
  return left;
}

void print_rows(std::ostream& out, const CompareResult& result, bool with_commands) {
  const auto runs = static_cast<int64_t>(result.rows.size()) * result.config.repetitions;
  out << "compare: " << result.rows.size() << " rows x " << result.config.repetitions
      << " repetitions = " << runs << " runs of " << result.config.run.string() << ", "
      << result.steps << " steps of " << result.tokens_per_step << " tokens; at most "
      << format_duration(static_cast<double>(runs * result.config.limit_s)) << "\n";
  if (!result.dropped_strategies.empty())
    out << "[strategies] stands for " << result.dropped_strategies << " of "
        << result.config.run.string() << "\n";
  for (size_t i = 0; i < result.rows.size(); ++i) {
    out << fmt::format("{:>4}  {}\n", i + 1, label(result.rows[i].row));
    if (with_commands) out << "      " << result.rows[i].command << "\n";
  }
  out << std::flush;
}

void print_result(std::ostream& out, const CompareResult& result) {
  std::vector<Cells> lines = {
      {"row", "tokens/s", "speed-up", "efficiency", "exposed", "sent MiB", "memory MiB", "loss"}};
  for (const RowResult* row : ranked(result)) lines.push_back(cells_of(*row, result));
  std::array<size_t, std::tuple_size_v<Cells>> widths{};
  for (const Cells& cells : lines)
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  const std::vector<const RowResult*> rows = ranked(result);
  for (size_t line = 0; line < lines.size(); ++line) {
    const Cells& cells = lines[line];
    std::string text = fmt::format("{:<{}}", cells[0], widths[0]);
    const RowResult* row = line == 0 ? nullptr : rows[line - 1];
    const bool has_figures = !cells[1].empty();
    for (size_t i = 1; i < cells.size() && has_figures; ++i)
      text += fmt::format("  {:>{}}", cells[i], widths[i]);
    if (row && row->status != RowStatus::done)
      text += fmt::format("  {}{}{}", to_string(row->status), row->reason.empty() ? "" : ": ",
                          first_line(row->reason));
    out << text << "\n";
  }
  for (const std::string& verdict : verdicts(result)) out << verdict << "\n";
  out << std::flush;
}

}  // namespace cleave
