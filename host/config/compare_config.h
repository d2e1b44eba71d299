// What `host compare` runs, as its TOML file says it, after validation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "keys.h"

namespace cleave {

/// A named part of a row: what its run has besides what all runs share.
struct CompareChoice {
  std::string name;
  std::vector<std::string> overrides;  ///< "table.key=value", as --set takes them
};

/// A key of the run that this file replaces for all rows.
struct SharedOverride {
  std::string text;  ///< "table.key=value"
  Origin origin;
};

/// Nodes with limited links, as tools/netlab makes them.
struct CompareLink {
  std::string name;
  bool is_limited = false;  ///< false: the rows run on this machine as it is
  int64_t nodes = 2;
  std::string rate = "none";
  std::string delay = "none";
};

struct CompareConfig {
  std::filesystem::path file;
  std::filesystem::path run;  ///< the run that all rows share
  std::vector<int64_t> ranks;
  int64_t repetitions;
  std::filesystem::path directory;
  int64_t limit_s;  ///< of one run
  int64_t skipped_steps;
  std::filesystem::path netlab;
  std::vector<SharedOverride> shared;   ///< in the file's order, then those of --set
  std::vector<CompareChoice> backends;  ///< empty: what `run` has; so with the three below
  std::vector<CompareChoice> strategies;
  std::vector<CompareChoice> transforms;  ///< besides none
  std::vector<CompareLink> links;
  std::map<std::string, Origin> origins;  ///< of the keys that are written

  /// "compare.toml:3:1: ranks" or "limit_s (default)": begins a message about a key.
  std::string where(const std::string& key) const;
  /// The texts of `shared`; `of_strategies`: those of [strategy.*], which rows keep when
  /// [strategies] is there, or all the others.
  std::vector<std::string> shared_texts(bool of_strategies) const;
};

/// Reads `file` and the overrides, which replace keys of the file or, as its other tables do, of
/// the run ("repetitions=1", "train.steps=20"). Throws ConfigError with file:line:column.
CompareConfig load_compare_config(const std::filesystem::path& file,
                                  const std::vector<std::string>& overrides);

/// The keys outside of tables, and those of a link.
std::span<const Key> compare_keys();
std::span<const Key> compare_link_keys();

/// An example of a file and its keys, for --help.
std::string compare_help();

}  // namespace cleave
