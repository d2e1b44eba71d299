// Chrome trace (chrome://tracing, Perfetto): one file per rank with spans of units, communication
// and optimizer. Thread-safe; recording costs one push_back.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

namespace cleave {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Trace(int rank);
  ~Trace();

  /// `track` becomes a row ("compute", "communication"); `arguments` are shown on click.
  void span(const std::string& track, const std::string& name, Clock::time_point begin,
            Clock::time_point end, int64_t bytes = 0);
  /// Writes {directory}/trace.rank<r>.json; times in microseconds of the steady clock.
  void write(const std::filesystem::path& directory) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cleave
