#include "trace.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "cleave/error.h"

namespace cleave {
namespace {

struct Span {
  size_t track;
  std::string name;
  Trace::Clock::time_point begin;
  Trace::Clock::time_point end;
  int64_t bytes;
};

double microseconds(Trace::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

/// Names are replaced where they are not UTF-8, since a trace must load whatever it shows.
std::string json_string(const std::string& text) {
  using nlohmann::json;
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string metadata(int rank, size_t track, const char* what, const std::string& arguments) {
  return fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{{}}}}})", rank, track,
                     what, arguments);
}

std::string to_event(int rank, const Span& span) {
  const std::string arguments =
      span.bytes > 0 ? fmt::format(R"(,"args":{{"bytes":{}}})", span.bytes) : "";
  return fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{}{}}})", rank,
                     span.track, microseconds(span.begin.time_since_epoch()),
                     microseconds(span.end - span.begin), json_string(span.name), arguments);
}

}  // namespace

struct Trace::State {
  /// Rows keep the order in which they were first used; there are few, so a search is enough.
  size_t track_of(const std::string& name) {
    const auto found = std::find(tracks.begin(), tracks.end(), name);
    if (found != tracks.end()) return static_cast<size_t>(found - tracks.begin());
    tracks.push_back(name);
    return tracks.size() - 1;
  }

  int rank;
  std::mutex mutex;
  std::vector<std::string> tracks;
  std::vector<Span> spans;
};

Trace::Trace(int rank) : state_(std::make_unique<State>()) {
  state_->rank = rank;
}
Trace::~Trace() = default;

void Trace::span(const std::string& track, const std::string& name, Clock::time_point begin,
                 Clock::time_point end, int64_t bytes) {
  std::lock_guard lock(state_->mutex);
  state_->spans.push_back({state_->track_of(track), name, begin, end, bytes});
}

void Trace::write(const std::filesystem::path& directory) const {
  std::lock_guard lock(state_->mutex);
  const int rank = state_->rank;
  std::error_code ignored;  // the open below reports it
  std::filesystem::create_directories(directory, ignored);
  const std::filesystem::path file = directory / message("trace.rank", rank, ".json");
  std::ofstream out(file, std::ios::trunc);
  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
      << metadata(rank, 0, "process_name", fmt::format(R"("name":"rank {}")", rank)) << ",\n"
      << metadata(rank, 0, "process_sort_index", fmt::format(R"("sort_index":{})", rank));
  for (size_t track = 0; track < state_->tracks.size(); ++track) {
    out << ",\n"
        << metadata(rank, track, "thread_name", "\"name\":" + json_string(state_->tracks[track]));
  }
  for (const Span& span : state_->spans) out << ",\n" << to_event(rank, span);
  out << "\n]}\n" << std::flush;
  if (!out) {
    throw RuntimeError(message(file.string(), ": trace can't be written: ", std::strerror(errno),
                               "; give a folder that can be written as metrics.directory"));
  }
}

}  // namespace cleave
