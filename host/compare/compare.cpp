#include "compare/compare.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "cleave/error.h"
#include "compare/child_runner.h"
#include "compare/console.h"
#include "compare/launch.h"
#include "compare/machine.h"
#include "compare/measured_run.h"
#include "compare/page.h"
#include "compare/result_json.h"
#include "data/output_file.h"
#include "report/console_line.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  OutputFile file(path);
  file.append(text);
  file.sync();
  file.publish();
}

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw ConfigError(message(folder.string(), ": can't be created: ", error.message(),
                              "; give a folder that can be written as directory"));
}

std::string strategy_names(const CompareConfig& config) {
  if (config.strategies.empty()) return "";
  std::string names;
  for (const PluginTable& strategy :
       load_run_config(config.run, config.shared_texts(false)).strategies)
    names += message(names.empty() ? "" : ", ", "[strategy.", strategy.name, "]");
  return names;
}

class Comparison {
 public:
  Comparison(const CompareConfig& config, std::ostream& out)
      : config_(config), out_(out), shared_(load_shared_run(config)) {
    result_.config = config;
    result_.steps = shared_.train.steps;
    result_.tokens_per_step = shared_.train.global_batch_size * shared_.data.sequence_length;
    result_.environment = environment_changes(config);
    result_.dropped_strategies = strategy_names(config);
    for (const CompareRow& row : make_rows(config, shared_)) {
      const size_t number = result_.rows.size() + 1;
      RowResult& added = result_.rows.emplace_back();
      added.row = row;
      added.folder = config.directory / fmt::format("row-{:02}", number);
      added.command = shell_line({}, launch(added, 1).arguments);
    }
  }

  const CompareResult& result() const { return result_; }

  bool run(const std::vector<std::pair<std::string, std::string>>& versions) {
    find_launcher();
    check_folder();
    create_folder(config_.directory);
    write(run_file(), print_run_config(shared_));
    result_.started = utc_now();
    result_.machine = machine_facts();
    result_.versions = versions;
    save();
    ChildRunner runner;
    for (int64_t repetition = 1; repetition <= config_.repetitions; ++repetition)
      for (size_t i = 0; i < result_.rows.size() && !runner.is_stopped(); ++i)
        run_row(runner, i, repetition);
    result_.is_complete = !runner.is_stopped();
    save();
    if (runner.is_stopped()) out_ << "stopped by a signal; what is there is kept\n";
    print_result(out_, result_);
    out_ << "page: " << page_file().string() << "\nfigures: " << json_file().string() << std::endl;
    return result_.is_complete &&
           std::none_of(result_.rows.begin(), result_.rows.end(),
                        [](const RowResult& row) { return row.status == RowStatus::failed; });
  }

 private:
  fs::path run_file() const { return config_.directory / "run.toml"; }
  fs::path page_file() const { return config_.directory / "index.html"; }
  fs::path json_file() const { return config_.directory / "compare.json"; }

  Launch launch(const RowResult& row, int64_t repetition) const {
    return make_launch(config_, row.row, run_file(), row.folder / std::to_string(repetition));
  }

  // An earlier comparison may be written over, and nothing else.
  void check_folder() const {
    const bool is_comparison = is_compare_json(json_file());
    std::error_code error;
    for (const fs::path& file : {run_file(), page_file(), json_file()}) {
      const bool is_input = fs::equivalent(file, config_.run, error);
      if (fs::exists(file, error) && (is_input || !is_comparison))
        throw ConfigError(message(config_.where("directory"), ": ", file.string(), " is ",
                                  is_input ? "the run to compare" : "not an earlier comparison's",
                                  " and would be written over; give a folder of its own"));
    }
  }

  // Before the first run, when it is needed: a row that can't start is no finding about the row.
  void find_launcher() {
    const bool is_needed = std::any_of(
        result_.rows.begin(), result_.rows.end(),
        [&](const RowResult& row) { return launch(row, 1).arguments.front() == kLauncher; });
    if (is_needed) mpirun_ = find_on_path(kLauncher);
    if (is_needed && mpirun_.empty())
      throw ConfigError(
          "host compare: mpirun is not on PATH; source tools/env, or add Open MPI's bin folder");
  }

  void run_row(ChildRunner& runner, size_t index, int64_t repetition) {
    RowResult& row = result_.rows[index];
    if (row.status != RowStatus::waiting && row.status != RowStatus::done) return;
    const Launch start = launch(row, repetition);
    announce(index, repetition);
    if (!start.refusal.empty())
      end_row(row, {RowStatus::refused, start.refusal});
    else if (!start.skip_reason.empty())
      end_row(row, {RowStatus::skipped, start.skip_reason});
    else
      start_row(runner, row, start, repetition);
    if (runner.is_stopped()) return;
    tell(row, index, repetition);
    save();
  }

  void start_row(ChildRunner& runner, RowResult& row, const Launch& start, int64_t repetition) {
    const fs::path folder = row.folder / std::to_string(repetition);
    const fs::path metrics = folder / "metrics.jsonl", log = folder / "log.txt";
    create_folder(folder);
    fs::remove(metrics);  // an earlier comparison's
    StepCounter steps(metrics);
    Program program{start.arguments, result_.environment, log};
    if (program.arguments.front() == kLauncher) program.arguments.front() = mpirun_.string();
    const ProgramEnd end =
        runner.run(program, std::chrono::seconds(config_.limit_s), [&] { tell_step(steps); });
    if (end.kind == ProgramEnd::Kind::stopped) return;
    RunFigures figures = read_figures(metrics);
    const Outcome outcome = judge(end, figures, result_.steps, log, row.row.link.is_limited);
    if (row.facts.empty()) row.facts = read_facts(log);
    if (outcome.status == RowStatus::done)
      row.repetitions.push_back({repetition, end.seconds, std::move(figures)});
    end_row(row, outcome);
  }

  static void end_row(RowResult& row, const Outcome& outcome) {
    row.status = outcome.status;
    row.reason = outcome.reason;
  }

  // The line stays open until the run has ended.
  void announce(size_t index, int64_t repetition) {
    const size_t number = static_cast<size_t>(repetition - 1) * result_.rows.size() + index + 1;
    const size_t runs = result_.rows.size() * static_cast<size_t>(config_.repetitions);
    const double left = seconds_left(result_, repetition, index);
    line_ = fmt::format("[{}/{}{}] {}: ", number, runs,
                        left < 0 ? "" : ", about " + format_duration(left) + " left",
                        label(result_.rows[index].row));
    out_ << line_ << std::flush;
  }

  // Only a terminal can take a line back.
  void tell_step(StepCounter& steps) {
    if (is_terminal_)
      out_ << fmt::format("\r{}step {}/{} ", line_, steps.count(), result_.steps) << std::flush;
  }

  void tell(const RowResult& row, size_t index, int64_t repetition) {
    if (is_terminal_) out_ << "\r" << line_;
    if (row.status == RowStatus::done) {
      const Repetition& run = row.repetitions.back();
      out_ << fmt::format("{:.1f} s, loss {:.5f}", run.seconds, run.figures.loss.back());
      if (const auto figures = figures_of(row, result_))
        out_ << ", " << format_count(figures->tokens_per_s.median) << " tokens/s";
    } else {
      out_ << to_string(row.status) << ": " << row.reason.substr(0, row.reason.find('\n'));
    }
    out_ << "\n";
    if (index == 0 && repetition == 1 && row.status == RowStatus::done)
      out_ << "if the others take as long: "
           << format_duration(seconds_left(result_, repetition, 1)) << " in all\n";
    out_ << std::flush;
  }

  void save() {
    write(json_file(), compare_json(result_));
    write(page_file(), compare_page(result_));
  }

  static constexpr const char* kLauncher = "mpirun";

  const CompareConfig config_;
  std::ostream& out_;
  const RunConfig shared_;
  fs::path mpirun_;
  const bool is_terminal_ = ::isatty(STDOUT_FILENO) == 1;
  std::string line_;  // that the terminal shows for the run
  CompareResult result_;
};

}  // namespace

bool compare(const CompareRequest& request,
             const std::vector<std::pair<std::string, std::string>>& versions, std::ostream& out) {
  Comparison comparison(load_compare_config(request.config, request.overrides), out);
  print_rows(out, comparison.result(), request.print_rows);
  return request.print_rows || comparison.run(versions);
}

}  // namespace cleave
