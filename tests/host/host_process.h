// Runs the real program and collects what a user would see.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace cleave::test {

struct Outcome {
  int exit_code;
  std::string output;  ///< stdout and stderr together
  double seconds;

  int count(const std::string& text) const;
  bool contains(const std::string& text) const { return count(text) > 0; }
};

/// A shell command with mpirun and host on PATH (tools/env), in `folder`; killed after 120 s. Its
/// temporary files go with it: Open MPI names a job's after mpirun's process and does not start
/// where a killed mpirun of the same number left them.
Outcome run_command(const std::string& command, const std::filesystem::path& folder);

/// A line of shell that ends when these processes (shell words) run no more. Zombies count as gone:
/// a killed mpirun leaves them to a process that may never ask for them.
std::string wait_until_gone(const std::string& processes);

/// A small run in `folder`: text, and run.toml made of these keys with `changes` ("train.steps" ->
/// "3"; an empty value leaves the key out).
std::filesystem::path write_run(const std::filesystem::path& folder,
                                const std::map<std::string, std::string>& changes = {});

/// A field of every line of metrics.jsonl, as text (all 17 digits).
std::vector<std::string> metric(const std::filesystem::path& folder, const std::string& key);

}  // namespace cleave::test
