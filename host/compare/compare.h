// host compare: backends x strategies x transforms x links on one model, each row a run of its own.
#pragma once

#include <filesystem>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace cleave {

struct CompareRequest {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  bool print_rows = false;  ///< print the rows and their commands, run nothing
};

/// `versions`: of this program and its libraries, for page and file. Call outside of any launcher,
/// before the process has threads. True when every row came to its end or was refused or skipped;
/// false: one failed, or a signal ended the comparison. Throws ConfigError before any run: the file
/// or the shared run is wrong, the directory can't be written, mpirun is needed and not there.
bool compare(const CompareRequest& request,
             const std::vector<std::pair<std::string, std::string>>& versions, std::ostream& out);

}  // namespace cleave
