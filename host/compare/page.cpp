#include "compare/page.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>

#include "cleave/error.h"
#include "compare/launch.h"
#include "compare/page_style.h"
#include "report/bar_chart.h"
#include "report/console_line.h"
#include "report/markup.h"

namespace cleave {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

std::string element(const char* tag, const std::string& content) {
  return fmt::format("<{0}>{1}</{0}>\n", tag, content);
}

// Names and values; a name may come again.
std::string list(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string text;
  for (const auto& [name, value] : pairs)
    text += element("dt", escape_markup(name)) + element("dd", escape_markup(value));
  return element("dl", text);
}

std::string with_range(const std::string& text, const Spread& spread,
                       const std::function<std::string(double)>& number) {
  if (spread.low == spread.high) return text;
  return fmt::format("{} ({} to {})", text, number(spread.low), number(spread.high));
}

// A fact of the base's run: "model: qwen2, ..." without the word.
std::string fact(const CompareResult& result, const std::string& word) {
  for (const RowResult& row : result.rows)
    for (const std::string& line : row.facts)
      if (line.starts_with(word + ": ")) return line.substr(word.size() + 2);
  return "";
}

std::string state_line(const CompareResult& result) {
  size_t counts[5] = {};
  for (const RowResult& row : result.rows) ++counts[static_cast<size_t>(row.status)];
  std::string text =
      fmt::format("{} rows, {} repetitions", result.rows.size(), result.config.repetitions);
  for (const RowStatus status : {RowStatus::refused, RowStatus::skipped, RowStatus::failed})
    if (const size_t count = counts[static_cast<size_t>(status)])
      text += fmt::format(", {} {}", count, to_string(status));
  const std::string begun = fmt::format("; begun {}", result.started);
  if (result.is_complete) return element("p", text + begun);
  return element("p", text + begun) +
         "<p class=\"bad\">Not complete: it was stopped, or still runs.</p>\n";
}

std::string verdict_list(const CompareResult& result) {
  std::string items;
  for (const std::string& line : verdicts(result)) items += element("li", escape_markup(line));
  return items.empty() ? "" : element("ul", items);
}

std::string chart(const CompareResult& result) {
  std::vector<Bar> bars;
  for (const RowResult* row : ranked(result)) {
    Bar bar{label(row->row), 0, 0, 0, to_string(row->status)};
    if (const auto figures = figures_of(*row, result)) {
      const Spread& speed = figures->tokens_per_s;
      bar = {label(row->row), speed.median, speed.low, speed.high, format_count(speed.median)};
    }
    bars.push_back(bar);
  }
  return draw_bars("tokens per second", bars);
}

std::string table_row(const RowResult& row, const CompareResult& result) {
  const FigureTexts texts = figure_texts(row, result);
  const std::string name = element("td", escape_markup(label(row.row)));
  if (texts.tokens_per_s.empty())
    return element("tr", name + fmt::format("<td colspan=\"8\" class=\"bad\">{}</td>\n",
                                            escape_markup(to_string(row.status))));
  std::string cells = name;
  const std::pair<const char*, const std::string&> figures[] = {
      {"tokens/s", texts.tokens_per_s},  {"speed-up", texts.speed_up},
      {"efficiency", texts.efficiency},  {"exposed communication", texts.exposed},
      {"sent, MiB", texts.sent},         {"tensors, MiB", texts.memory},
      {"resident, MiB", texts.resident}, {"loss", texts.loss}};
  for (const auto& [what, value] : figures)
    cells += fmt::format("<td data-name=\"{}\"><span>{}</span></td>\n", what, escape_markup(value));
  return element("tr", cells);
}

std::string table(const CompareResult& result) {
  std::string head = element("th", "row");
  for (const char* name : {"tokens/s", "speed-up", "efficiency", "exposed communication",
                           "sent, MiB", "tensors, MiB", "resident, MiB", "loss"})
    head += element("th", name);
  std::string rows;
  for (const RowResult* row : ranked(result)) rows += table_row(*row, result);
  return fmt::format("<table class=\"figures\">\n{}{}</table>\n",
                     element("thead", element("tr", head)), element("tbody", rows));
}

std::string how_measured(const CompareResult& result) {
  return element(
      "p", fmt::format(
               "Each figure is the median over the steps of a run, without its first {}, and "
               "then over the repetitions, whose lowest and highest stand in brackets. tokens/s: "
               "global batch x sequence length / step time. Speed-up: tokens/s over those of one "
               "rank; efficiency: that / ranks. Exposed communication: of the largest rank, in "
               "ms a step and its share of the step; waiting for a slower rank counts. Sent: by "
               "the largest rank in a step, as the host counts it. Tensors, resident: the "
               "highest of the fullest rank. Loss: of step {}, on the same tokens in every row, "
               "and its difference from one rank's.",
               result.config.skipped_steps, result.steps));
}

std::string reasons(const CompareResult& result) {
  std::string text;
  for (const RowResult& row : result.rows)
    if (!row.reason.empty())
      text += element("h3", escape_markup(label(row.row) + ": " + to_string(row.status))) +
              element("pre", escape_markup(row.reason));
  return text.empty() ? "" : element("h2", "Rows without all figures") + text;
}

std::string what_ran(const CompareResult& result) {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"file", result.config.file.string()},
      {"run",
       result.config.run.string() +
           (result.dropped_strategies.empty() ? "" : ", without its " + result.dropped_strategies)},
      {"model", fact(result, "model")},
      {"tokens",
       fmt::format("{} a step, {} steps", format_count(static_cast<double>(result.tokens_per_step)),
                   result.steps)}};
  facts.insert(facts.end(), result.machine.begin(), result.machine.end());
  std::vector<std::string> seen;
  for (const RowResult& row : result.rows)
    for (const std::string& line : row.facts)
      if ((line.starts_with("communication: ") || line.starts_with("netlab: ")) &&
          std::find(seen.begin(), seen.end(), line) == seen.end()) {
        seen.push_back(line);
        const size_t colon = line.find(": ");
        facts.emplace_back(line.substr(0, colon), line.substr(colon + 2));
      }
  facts.insert(facts.end(), result.versions.begin(), result.versions.end());
  std::erase_if(facts, [](const auto& entry) { return entry.second.empty(); });
  return element("h2", "What ran") + list(facts);
}

std::string repetition_table(const RowResult& row, int64_t skipped) {
  std::string rows = element("tr", element("th", "repetition") + element("th", "tokens/s") +
                                       element("th", "loss") + element("th", "s in all"));
  for (const Repetition& repetition : row.repetitions) {
    std::vector<double> speeds = repetition.figures.tokens_per_s;
    speeds.erase(speeds.begin(), speeds.begin() + skipped);
    const auto [low, high] = std::minmax_element(speeds.begin(), speeds.end());
    rows += element(
        "tr", element("td", std::to_string(repetition.number)) +
                  element("td", fmt::format("{} to {}", format_count(*low), format_count(*high))) +
                  element("td", fmt::format("{:.5f}", repetition.figures.loss.back())) +
                  element("td", fmt::format("{:.1f}", repetition.seconds)));
  }
  return element("table", rows);
}

std::string details(const CompareResult& result) {
  std::string text = element("h2", "How to repeat it") +
                     element("p",
                             "In the folder from which the comparison was started, with "
                             "mpirun on PATH and this environment:");
  std::string environment;
  for (const auto& [name, value] : result.environment)
    environment += fmt::format("export {}\n", shell_line({{name, value}}, {}));
  text += element("pre", escape_markup(environment));
  for (const RowResult& row : result.rows) {
    std::string facts;
    for (const std::string& line : row.facts) facts += line + "\n";
    std::string block = element("summary", escape_markup(label(row.row))) +
                        element("pre", escape_markup(row.command));
    if (!facts.empty()) block += element("pre", escape_markup(facts));
    if (!row.repetitions.empty()) block += repetition_table(row, result.config.skipped_steps);
    text += element("details", block);
  }
  return text;
}

}  // namespace

FigureTexts figure_texts(const RowResult& row, const CompareResult& result) {
  const auto figures = figures_of(row, result);
  if (!figures) return {};
  FigureTexts texts;
  const Spread& speed = figures->tokens_per_s;
  texts.tokens_per_s = with_range(format_count(speed.median), speed, format_count);
  if (figures->speed_up) {
    texts.speed_up = fmt::format("{:.2f}", *figures->speed_up);
    texts.efficiency = fmt::format("{:.0f} %", 100 * *figures->efficiency);
  }
  texts.exposed = fmt::format("{:.1f} ms, {:.0f} %", figures->exposed_ms.median,
                              100 * figures->exposed_ms.median / figures->step_ms.median);
  texts.sent = fmt::format("{:.2f}", figures->wire_bytes.median / kMiB);
  texts.memory = fmt::format("{:.1f}", figures->peak_memory_mib);
  texts.resident = fmt::format("{:.0f}", figures->resident_mib);
  const auto loss = [](double value) { return fmt::format("{:.5f}", value); };
  texts.loss = with_range(loss(figures->loss.median), figures->loss, loss);
  const RowResult& base = result.rows.front();
  if (const auto one = figures_of(base, result); one && !row.row.is_base)
    texts.loss += fmt::format(" ({:+.4f} %)", 100 * (figures->loss.median / one->loss.median - 1));
  return texts;
}

std::string compare_page(const CompareResult& result) {
  const std::string title = message("host compare: ", fact(result, "model"));
  return "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
         "<meta charset=\"utf-8\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n" +
         element("title", escape_markup(title)) + element("style", kPageStyle) +
         "</head>\n<body>\n" + element("h1", escape_markup(title)) + state_line(result) +
         verdict_list(result) + element("h2", "Tokens per second") + chart(result) +
         element("h2", "All figures") + table(result) + how_measured(result) + reasons(result) +
         what_ran(result) + details(result) + "</body>\n</html>\n";
}

}  // namespace cleave
