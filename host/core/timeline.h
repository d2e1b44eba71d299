// When each action of a schedule runs, if every action takes its cost and nothing else takes time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cleave/schedule.h"

namespace cleave {

struct TimelineSpan {
  Action action;
  double begin;
  double end;
};

/// By pipeline rank, in the order in which they run.
using Timeline = std::vector<std::vector<TimelineSpan>>;

/// In any unit of time; a whole backward takes backward_input + backward_weight.
struct ActionCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
};

/// Runs the schedule of `num_chunks` chunks and `num_micro_batches`. An action waits for its rank,
/// for the forward of the chunk before or the backward of the chunk after, and for what it undoes
/// itself. ConfigError when a chunk and micro-batch is missing or twice there, runs on another rank
/// than chunk % ranks, or when ranks would wait for each other for ever.
Timeline simulate(const std::vector<std::vector<Action>>& schedule, int num_chunks,
                  int num_micro_batches, const ActionCosts& costs = {});

/// Share of the ranks' time in which they do nothing.
double bubble_fraction(const Timeline& timeline);

/// Most micro-batches of a rank (each chunk counted) between forward and the end of their backward.
int max_open(const std::vector<Action>& actions);

/// A line a rank, a column a unit of time: "F0 F1 . . B0 B0", one row of letters and micro-batches.
std::string draw_text(const Timeline& timeline);
/// The same as a picture.
std::string draw_svg(const Timeline& timeline);

}  // namespace cleave
