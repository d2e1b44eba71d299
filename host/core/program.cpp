#include "core/program.h"

#include <chrono>
#include <thread>

#include "cleave/error.h"
#include "config/command_line.h"
#include "core/run.h"
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

// One message: rank 0 speaks at once, and the launcher ends the other ranks when it exits. The
// others speak only when that did not happen, that is, when rank 0 has no such failure.
int report(const std::exception& failure, const ProcessInfo& process, std::ostream& error) {
  if (process.rank != 0) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    error << "rank " << process.rank << " of " << process.world_size << ": ";
  }
  error << "error: " << failure.what() << std::endl;
  return exit_code(failure);
}

void run_config(const RunConfig& config, const ProcessInfo& process, std::ostream& out) {
  if (config.communication.backend.name != kThreadBackend)
    return run_rank(config, process, *make_process_bootstrap(process), out, [] {});
  if (process.world_size > 1)
    throw ConfigError(message(config.where("communication.backend"),
                              ": local runs all ranks as threads of one process, but ",
                              process.launcher, " started ", process.world_size,
                              " processes; start host without a launcher, or use mpi"));
  run_threads(config, out);
}

void run_verb(const CommandLine& line, const ProcessInfo& process, std::ostream& out) {
  switch (line.verb) {
    case Verb::help:
      out << line.text;
      return;
    case Verb::version:
      return print_versions(out);
    case Verb::prepare:
      return prepare(line.prepare, out);
    case Verb::describe:
      return print_description(line.describe, out);
    case Verb::plugins:
      return print_plugins(out, line.failed_only);
    case Verb::check: {
      const RunConfig config = load_run_config(line.config, line.overrides);
      const int launched = process.world_size > 1 ? process.world_size : 0;
      return check(config, static_cast<int>(line.world_size.value_or(launched)), out);
    }
    case Verb::train: {
      const RunConfig config = load_run_config(line.config, line.overrides);
      if (line.print_config) {
        if (process.rank == 0) out << print_run_config(config);
        return;
      }
      return run_config(config, process, out);
    }
  }
}

}  // namespace

int run_program(int argc, const char* const* argv, std::ostream& out, std::ostream& error) {
  ProcessInfo process;
  try {
    process = read_process_info();
    run_verb(parse_command_line(argc, argv), process, out);
    out.flush();
    return 0;
  } catch (const std::exception& failure) {
    out.flush();
    return report(failure, process, error);
  }
}

}  // namespace cleave
