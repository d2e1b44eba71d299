#include "core/program.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include "checkpoint/export_checkpoint.h"
#include "checkpoint/inspect.h"
#include "cleave/error.h"
#include "compare/compare.h"
#include "config/command_line.h"
#include "core/bench.h"
#include "core/export_model.h"
#include "core/layout.h"
#include "core/run.h"
#include "core/verify.h"
#include "core/versions.h"
#include "data/prepare.h"
#include "process/plugin_list.h"
#include "process/print_description.h"

namespace cleave {

namespace {

constexpr char kThreadBackend[] = "local";  // ranks as threads: no launcher, no other process

int exit_code(const std::exception& failure) {
  return dynamic_cast<const ConfigError*>(&failure) ? 2 : 1;
}

bool is_timeout(const std::exception& failure) {
  return std::string_view(failure.what()).find("timed out") != std::string_view::npos;
}

// One message: rank 0 speaks at once, and the launcher ends the other ranks when it exits. The
// others speak only when that did not happen, that is, when rank 0 has no such failure; and after a
// timeout, since the rank that rank 0 waited for may itself have waited for another.
int report(const std::exception& failure, const ProcessInfo& process, std::ostream& error) {
  using std::chrono::milliseconds;
  if (process.rank != 0) {
    std::this_thread::sleep_for(milliseconds(is_timeout(failure) ? 300 : 5000));
    error << "rank " << process.rank << " of " << process.world_size << ": ";
  }
  error << "error: " << failure.what() << std::endl;
  // Open MPI's launcher may crash or hang when it ends a rank that is just connecting to it, and
  // ends others whose message is still on its way.
  if (process.world_size > 1 && process.launcher == "Open MPI")
    std::this_thread::sleep_for(milliseconds(1000));
  return exit_code(failure);
}

// Runs `rank` as this process, or as all ranks where the backend's ranks are threads.
void on_ranks(const RunConfig& config, const ProcessInfo& process,
              const std::function<void(const ProcessInfo&, const Bootstrap&,
                                       const std::function<void()>&)>& rank) {
  if (config.communication.backend.name != kThreadBackend)
    return rank(process, *make_process_bootstrap(process), [] {});
  if (process.world_size > 1)
    throw ConfigError(message(config.where("communication.backend"),
                              ": local runs all ranks as threads of one process, but ",
                              process.launcher, " started ", process.world_size,
                              " processes; start host without a launcher, or use mpi"));
  run_as_threads(written_mesh_size(config), rank);
}

void run_train(const RunConfig& config, const ProcessInfo& process, std::ostream& out) {
  std::optional<StopSignals> signals;  // before any thread; without checkpoints they end the run
  if (config.checkpoint.is_on()) signals.emplace();
  on_ranks(config, process, [&](const auto& rank, const auto& bootstrap, const auto& on_failure) {
    run_as_rank(config, rank, bootstrap, on_failure, [&](const auto& context, const auto& plan) {
      train(context, plan, signals ? &*signals : nullptr, out);
    });
  });
}

void run_export(const CommandLine& line, const ProcessInfo& process, std::ostream& out) {
  if (process.world_size > 1)
    throw ConfigError(message("host export: ", process.launcher, " started ", process.world_size,
                              " processes; one is enough, start host without a launcher"));
  if (!line.checkpoint.empty())
    return export_checkpoint(line.checkpoint, line.export_to, line.export_dtype, out);
  RunConfig config = load_run_config(line.config, line.overrides);
  config.model.export_folder = line.export_to;
  export_initial(config, out);
}

int run_compare(const CommandLine& line, const ProcessInfo& process, std::ostream& out) {
  if (!process.launcher.empty())
    throw ConfigError(message("host compare: started by ", process.launcher,
                              "; it starts mpirun itself, start host without a launcher"));
  return compare({line.config, line.overrides, line.print_rows}, versions(), out) ? 0 : 1;
}

// Every rank returns the same verdict.
int run_verify(const CommandLine& line, const ProcessInfo& process, std::ostream& out) {
  const RunConfig config = load_run_config(line.config, line.overrides);
  std::atomic<bool> is_good = true;
  on_ranks(config, process, [&](const auto& rank, const auto& bootstrap, const auto& on_failure) {
    if (!verify(config, line.verify_steps, rank, bootstrap, on_failure, out)) is_good = false;
  });
  return is_good ? 0 : 1;
}

int run_verb(const CommandLine& line, const ProcessInfo& process, std::ostream& out) {
  switch (line.verb) {
    case Verb::help:
      out << line.text;
      break;
    case Verb::version:
      print_versions(out);
      print_plugins(out, false);
      break;
    case Verb::prepare:
      prepare(line.prepare, out);
      break;
    case Verb::describe:
      print_description(line.describe, out);
      break;
    case Verb::plugins:
      print_plugins(out, line.failed_only);
      break;
    case Verb::check: {
      const int launched = process.world_size > 1 ? process.world_size : 0;
      check(load_run_config(line.config, line.overrides), line.world_size.value_or(launched),
            line.schedule_picture, out);
      break;
    }
    case Verb::export_model:
      run_export(line, process, out);
      break;
    case Verb::inspect:
      return inspect(line.checkpoint, line.json, out) ? 0 : 1;
    case Verb::bench:
      return bench(line.bench, process, out) ? 0 : 1;
    case Verb::compare:
      return run_compare(line, process, out);
    case Verb::verify:
      return run_verify(line, process, out);
    case Verb::train: {
      const RunConfig config = load_run_config(line.config, line.overrides);
      if (!line.print_config)
        run_train(config, process, out);
      else if (process.rank == 0)
        out << print_run_config(config);
      break;
    }
  }
  return 0;
}

}  // namespace

int run_program(int argc, const char* const* argv, std::ostream& out, std::ostream& error) {
  ProcessInfo process;
  try {
    process = read_process_info();
    const int code = run_verb(parse_command_line(argc, argv), process, out);
    if (!out.flush())
      throw RuntimeError("standard output can't be written, so what was printed is not all there");
    return code;
  } catch (const std::exception& failure) {
    out.flush();
    return report(failure, process, error);
  }
}

}  // namespace cleave
