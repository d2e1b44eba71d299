#include "compare/measured_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cleave/error.h"

namespace cleave {
namespace {

constexpr const char* kMark = "error: ";  // before the text of a failure
constexpr int kRefused = 2;
constexpr int kCanNot = 77;  // of tools/netlab

using Json = nlohmann::json;

double number(const Json& line, const char* key) {
  const Json& value = line.at(key);
  return value.is_null() ? std::nan("") : value.get<double>();  // infinity and NaN are null there
}

void raise(std::vector<double>& highest, const Json& values) {
  highest.resize(std::max(highest.size(), values.size()), 0);
  for (size_t i = 0; i < values.size(); ++i)
    highest[i] = std::max(highest[i], values[i].get<double>());
}

void add(RunFigures& figures, const Json& line) {
  figures.step_ms.push_back(number(line, "step_ms"));
  figures.tokens_per_s.push_back(number(line, "tokens_per_s"));
  figures.exposed_ms.push_back(number(line, "exposed_communication_ms"));
  figures.wire_bytes.push_back(number(line, "wire_bytes"));
  figures.loss.push_back(number(line, "loss"));
  raise(figures.peak_memory_mib, line.at("peak_memory_mib"));
  raise(figures.resident_mib, line.at("resident_mib"));
}

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::vector<std::string> lines;
  std::ifstream in(file, std::ios::binary);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool has_words(const std::string& line) {
  return std::any_of(line.begin(), line.end(), [](unsigned char c) { return std::isalpha(c); });
}

// The last lines that follow each other, as one: launchers break theirs.
std::string last_words(const std::vector<std::string>& lines) {
  constexpr int kMostLines = 4;
  const auto end = std::find_if(lines.rbegin(), lines.rend(), has_words).base();
  std::string text;
  auto begin = end;
  while (begin != lines.begin() && end - begin < kMostLines && has_words(begin[-1])) --begin;
  for (; begin != end; ++begin) text += (text.empty() ? "" : " ") + *begin;
  return text.empty() ? "it printed nothing" : text;
}

// The first error that the run reports, with the lines that belong to it; else its last words.
std::string message_in(const std::filesystem::path& log) {
  const std::vector<std::string> lines = lines_of(log);
  const auto first = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with(kMark) || line.find(message(": ", kMark)) != std::string::npos;
  });
  if (first == lines.end()) return last_words(lines);
  std::string text = first->starts_with(kMark) ? first->substr(std::strlen(kMark)) : *first;
  for (auto line = first + 1; line != lines.end(); ++line) {
    if (line->empty() || line->starts_with("---")) break;  // the launcher's own
    text += "\n" + *line;
  }
  return text;
}

std::string fate(const ProgramEnd& end) {
  if (end.kind == ProgramEnd::Kind::signalled)
    return message("ended by signal ", end.code, " (", ::strsignal(end.code), ")");
  return message("exit status ", end.code);
}

}  // namespace

RunFigures read_figures(const std::filesystem::path& metrics_file) {
  RunFigures figures;
  for (const std::string& text : lines_of(metrics_file)) {
    const Json line = Json::parse(text, nullptr, false);
    if (line.is_discarded()) break;  // a killed run's last one
    add(figures, line);
  }
  return figures;
}

int64_t StepCounter::count() {
  std::ifstream in(file_, std::ios::binary);
  in.seekg(read_bytes_);
  for (char byte; in.get(byte); ++read_bytes_) lines_ += byte == '\n' ? 1 : 0;
  return lines_;
}

std::vector<std::string> read_facts(const std::filesystem::path& log) {
  constexpr const char* kWords[] = {
      "model: ", "mesh: ", "batch: ", "dtypes: ", "communication: ", "threads: ", "netlab: "};
  std::vector<std::string> facts;
  for (const std::string& line : lines_of(log))
    for (const char* word : kWords)
      if (line.starts_with(word)) facts.push_back(line);
  return facts;
}

Outcome judge(const ProgramEnd& end, const RunFigures& figures, int64_t wanted,
              const std::filesystem::path& log, bool is_netlab) {
  const auto num_steps = static_cast<int64_t>(figures.loss.size());
  if (end.kind == ProgramEnd::Kind::too_long)
    return {RowStatus::failed, message("did not end within its time (limit_s), after ", num_steps,
                                       " of ", wanted, " steps; ", message_in(log))};
  const bool has_exited = end.kind == ProgramEnd::Kind::exited;
  if (has_exited && end.code == kRefused) return {RowStatus::refused, message_in(log)};
  if (has_exited && end.code == kCanNot && is_netlab) return {RowStatus::skipped, message_in(log)};
  if (!has_exited || end.code != 0)
    return {RowStatus::failed, message(message_in(log), "\n", fate(end), " after ", num_steps,
                                       " of ", wanted, " steps")};
  if (num_steps != wanted)
    return {RowStatus::failed, message("metrics.jsonl has ", num_steps, " of ", wanted, " steps")};
  return {RowStatus::done, ""};
}

}  // namespace cleave
