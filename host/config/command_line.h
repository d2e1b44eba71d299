// What the user typed. Nothing is printed and nothing exits here.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench_request.h"
#include "data/prepare.h"
#include "describe.h"

namespace cleave {

enum class Verb {
  train,
  check,
  verify,
  bench,
  compare,
  prepare,
  describe,
  plugins,
  export_model,
  inspect,
  version,  ///< --version with any verb
  help      ///< --help: CommandLine::text is what to print
};

struct CommandLine {
  Verb verb = Verb::train;
  std::filesystem::path config;        ///< train, check, verify, compare, export
  std::vector<std::string> overrides;  ///< with config: "table.key=value", in order
  bool print_config = false;           ///< train: print the effective config instead of training
  bool print_rows = false;             ///< compare: print what would run instead of running it
  std::optional<int> world_size;       ///< check
  std::filesystem::path schedule_picture;  ///< check; empty: none
  int64_t verify_steps = 10;               ///< verify
  BenchRequest bench;
  PrepareRequest prepare;
  DescribeRequest describe;
  std::filesystem::path checkpoint;      ///< export, in place of config; inspect
  std::filesystem::path export_to;       ///< export
  std::string export_dtype = "float32";  ///< export of a checkpoint
  bool json = false;                     ///< inspect
  bool failed_only = false;              ///< plugins: those that can't be used
  std::string text;
};

/// `argv` as main gets it. A verb may come first, train is the default.
/// Throws ConfigError: unknown verb or option (with the nearest name), missing or malformed value.
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace cleave
