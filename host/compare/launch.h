// How a row's run is started: the command that a user could type.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "compare/matrix.h"

namespace cleave {

struct Launch {
  std::vector<std::string> arguments;  ///< the program first
  std::string refusal;                 ///< why there is no such run; empty: there is
  std::string skip_reason;             ///< why it can't be started here; empty: it can
};

/// What runs need besides this process's environment, and it doesn't have: what tools/env sets, and
/// OMP_NUM_THREADS so that a rank has as many threads in every row.
using EnvironmentChanges = std::vector<std::pair<std::string, std::string>>;
EnvironmentChanges environment_changes(const CompareConfig& config);

/// `run_file`: of the shared run. The program is this one; under mpirun, except one rank and ranks
/// that are threads, which need no launcher.
Launch make_launch(const CompareConfig& config, const CompareRow& row,
                   const std::filesystem::path& run_file, const std::filesystem::path& metrics);

/// The whole line for a shell.
std::string shell_line(const EnvironmentChanges& environment,
                       const std::vector<std::string>& arguments);

/// The path of a program that PATH has; empty when it has none.
std::filesystem::path find_on_path(const std::string& program);

}  // namespace cleave
