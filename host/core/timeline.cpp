#include "core/timeline.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <optional>
#include <sstream>
#include <tuple>

#include "cleave/error.h"

namespace cleave {

namespace {

using Kind = Action::Kind;

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"forward", "backward", "backward_input", "backward_weight"};
  return kNames[static_cast<int>(kind)];
}

std::string describe(const Action& action) {
  return message(name_of(action.kind), " of chunk ", action.chunk, ", micro-batch ",
                 action.micro_batch);
}

double cost_of(Kind kind, const ActionCosts& costs) {
  switch (kind) {
    case Kind::forward:
      return costs.forward;
    case Kind::backward:
      return costs.backward_input + costs.backward_weight;
    case Kind::backward_input:
      return costs.backward_input;
    default:
      return costs.backward_weight;
  }
}

// When each half of each chunk and micro-batch is done.
class Ends {
 public:
  Ends(int num_chunks, int num_micro_batches)
      : num_chunks_(num_chunks), num_micro_batches_(num_micro_batches) {}

  // The earliest time at which the action's inputs are there; none while one is missing.
  std::optional<double> ready(const Action& action) const {
    if (action.kind == Kind::forward)
      return action.chunk == 0 ? 0.0 : find(Kind::forward, action.chunk - 1, action.micro_batch);
    if (action.kind == Kind::backward_weight)
      return find(Kind::backward_input, action.chunk, action.micro_batch);
    const auto own = find(Kind::forward, action.chunk, action.micro_batch);
    if (action.chunk == num_chunks_ - 1 || !own) return own;
    const auto after = find(Kind::backward_input, action.chunk + 1, action.micro_batch);
    return after ? std::optional(std::max(*own, *after)) : std::nullopt;
  }

  void set(const Action& action, double end) {
    if (action.chunk < 0 || action.chunk >= num_chunks_ || action.micro_batch < 0 ||
        action.micro_batch >= num_micro_batches_)
      throw ConfigError(message("the schedule has a ", describe(action), ", but there are ",
                                num_chunks_, " chunks and ", num_micro_batches_,
                                " micro-batches; mend the strategy that schedules"));
    if (action.kind == Kind::backward) {
      insert(Kind::backward_input, action, end);
      insert(Kind::backward_weight, action, end);
    } else {
      insert(action.kind, action, end);
    }
  }

  void check_complete() const {
    if (ends_.size() == size_t{3} * num_chunks_ * num_micro_batches_) return;
    for (int chunk = 0; chunk < num_chunks_; ++chunk)
      for (int m = 0; m < num_micro_batches_; ++m)
        for (Kind kind : {Kind::forward, Kind::backward_input, Kind::backward_weight})
          if (!find(kind, chunk, m))
            throw ConfigError(message("the schedule lacks ", describe({kind, chunk, m}),
                                      "; mend the strategy that schedules"));
  }

 private:
  using Key = std::tuple<Kind, int, int>;
  std::optional<double> find(Kind kind, int chunk, int micro_batch) const {
    const auto found = ends_.find({kind, chunk, micro_batch});
    return found == ends_.end() ? std::nullopt : std::optional(found->second);
  }
  void insert(Kind kind, const Action& action, double end) {
    if (!ends_.insert({Key{kind, action.chunk, action.micro_batch}, end}).second)
      throw ConfigError(message("the schedule has ",
                                describe({kind, action.chunk, action.micro_batch}),
                                " twice; mend the strategy that schedules"));
  }

  int num_chunks_;
  int num_micro_batches_;
  std::map<Key, double> ends_;
};

double makespan(const Timeline& timeline) {
  double end = 0;
  for (const auto& spans : timeline)
    if (!spans.empty()) end = std::max(end, spans.back().end);
  return end;
}

char letter(Kind kind) {
  return "FBIW"[static_cast<int>(kind)];
}

}  // namespace

Timeline simulate(const std::vector<std::vector<Action>>& schedule, int num_chunks,
                  int num_micro_batches, const ActionCosts& costs) {
  const size_t ranks = schedule.size();
  Ends ends(num_chunks, num_micro_batches);
  Timeline timeline(ranks);
  for (bool is_moving = true; is_moving;) {
    is_moving = false;
    for (size_t rank = 0; rank < ranks; ++rank) {
      std::vector<TimelineSpan>& done = timeline[rank];
      while (done.size() < schedule[rank].size()) {
        const Action& action = schedule[rank][done.size()];
        if (action.chunk % static_cast<int>(ranks) != static_cast<int>(rank))
          throw ConfigError(message("the schedule of pipeline rank ", rank, " has a ",
                                    describe(action), ", which is rank ",
                                    action.chunk % static_cast<int>(ranks),
                                    "'s; mend the strategy that schedules"));
        const auto ready = ends.ready(action);
        if (!ready) break;
        const double begin = std::max(*ready, done.empty() ? 0.0 : done.back().end);
        done.push_back({action, begin, begin + cost_of(action.kind, costs)});
        ends.set(action, done.back().end);
        is_moving = true;
      }
    }
  }
  for (size_t rank = 0; rank < ranks; ++rank)
    if (timeline[rank].size() < schedule[rank].size())
      throw ConfigError(message("the schedule can't be run: pipeline rank ", rank, " waits at its ",
                                describe(schedule[rank][timeline[rank].size()]),
                                " for ever; mend the strategy that schedules"));
  ends.check_complete();
  return timeline;
}

double bubble_fraction(const Timeline& timeline) {
  const double end = makespan(timeline);
  if (end == 0) return 0;
  double busy = 0;
  for (const auto& spans : timeline)
    for (const TimelineSpan& span : spans) busy += span.end - span.begin;
  return 1 - busy / (end * static_cast<double>(timeline.size()));
}

int max_open(const std::vector<Action>& actions) {
  int open = 0, most = 0;
  for (const Action& action : actions) {
    if (action.kind == Kind::forward) most = std::max(most, ++open);
    if (action.kind == Kind::backward || action.kind == Kind::backward_weight) --open;
  }
  return most;
}

std::string draw_text(const Timeline& timeline) {
  const auto columns = static_cast<size_t>(makespan(timeline));
  size_t width = 2;
  for (const auto& spans : timeline)
    for (const TimelineSpan& span : spans)
      width = std::max(width, std::to_string(span.action.micro_batch).size() + 1);
  std::ostringstream text;
  for (size_t rank = 0; rank < timeline.size(); ++rank) {
    std::vector<std::string> cells(columns, ".");
    for (const TimelineSpan& span : timeline[rank])
      for (auto at = static_cast<size_t>(span.begin); at < static_cast<size_t>(span.end); ++at)
        cells[at] = letter(span.action.kind) + std::to_string(span.action.micro_batch);
    text << "  " << rank << ":";
    for (const std::string& cell : cells) text << ' ' << std::setw(static_cast<int>(width)) << cell;
    text << '\n';
  }
  return text.str();
}

std::string draw_svg(const Timeline& timeline) {
  constexpr double kUnit = 28, kRow = 26, kLeft = 60;
  constexpr const char* kColours[] = {"#8ab4f8", "#81c995", "#81c995", "#fdd663"};
  const double width = kLeft + makespan(timeline) * kUnit + 10;
  const double height = (static_cast<double>(timeline.size()) + 1) * kRow + 10;
  std::ostringstream svg;
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
      << "\" font-family=\"sans-serif\" font-size=\"11\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  for (size_t rank = 0; rank < timeline.size(); ++rank) {
    const double y = static_cast<double>(rank) * kRow + 6;
    svg << "<text x=\"6\" y=\"" << y + 16 << "\">stage " << rank << "</text>\n";
    for (const TimelineSpan& span : timeline[rank]) {
      const double x = kLeft + span.begin * kUnit, w = (span.end - span.begin) * kUnit;
      svg << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << w - 1 << "\" height=\""
          << kRow - 4 << "\" fill=\"" << kColours[static_cast<int>(span.action.kind)]
          << "\"/><text x=\"" << x + w / 2 << "\" y=\"" << y + 15 << "\" text-anchor=\"middle\">"
          << letter(span.action.kind) << span.action.micro_batch << "<title>chunk "
          << span.action.chunk << "</title></text>\n";
    }
  }
  svg << "<text x=\"" << kLeft << "\" y=\"" << height - 10
      << "\">F forward, B backward, I its input part, W its weight part; bubble " << std::fixed
      << std::setprecision(3) << bubble_fraction(timeline) << "</text>\n</svg>\n";
  return svg.str();
}

}  // namespace cleave
