// What `host bench` was asked to do, as typed; make_bench_plan (core/bench_plan.h) checks it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

struct BenchRequest {
  std::string backend;             ///< empty: local when `ranks` is given, else mpi
  std::optional<int> ranks;        ///< as threads of this process; nothing: what the launcher says
  std::vector<std::string> ops;    ///< empty: all that the backend has
  std::vector<std::string> bytes;  ///< "4096", "64 MiB"; empty: 8 B to 256 MiB
  std::string dtype = "float32";
  std::vector<std::string> overrides;  ///< "communication.mpi.algorithm=ring"
  std::filesystem::path json;          ///< empty: none
  std::filesystem::path plot;          ///< empty: none
};

}  // namespace cleave
