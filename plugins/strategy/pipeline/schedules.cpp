#include "schedules.h"

#include <algorithm>

namespace cleave {

namespace {

using Kind = Action::Kind;
using Schedule = std::vector<std::vector<Action>>;

// Warm-up forwards, then forward and backward in turn, then what backwards are left. `forward(k)`
// and `backward(k)` give the k-th of `count`.
template <typename Forward, typename Backward>
std::vector<Action> in_turn(int count, int warm_up, const Forward& forward,
                            const Backward& backward) {
  std::vector<Action> actions;
  for (int k = 0; k < warm_up; ++k) actions.push_back(forward(k));
  for (int k = warm_up; k < count; ++k) {
    actions.push_back(forward(k));
    actions.push_back(backward(k - warm_up));
  }
  for (int k = count - warm_up; k < count; ++k) actions.push_back(backward(k));
  return actions;
}

// Ranks that take what they can do at each tick, backward first.
class TickedRanks {
 public:
  explicit TickedRanks(const ScheduleShape& shape)
      : p_(shape.ranks), m_(shape.micro_batches), done_(p_), actions_(p_) {}

  Schedule run() {
    while (std::any_of(done_.begin(), done_.end(),
                       [&](const Done& done) { return done.weights < m_; })) {
      const std::vector<Done> before = done_;  // all ranks decide at once
      for (int rank = 0; rank < p_; ++rank) tick(before, rank);
    }
    return actions_;
  }

 private:
  struct Done {
    int forwards = 0, inputs = 0, weights = 0;
  };

  void tick(const std::vector<Done>& before, int rank) {
    Done& done = done_[rank];
    const int arrived = rank == 0 ? m_ : before[rank - 1].forwards;
    const int returned = rank == p_ - 1 ? done.forwards : before[rank + 1].inputs;
    if (done.inputs < std::min(done.forwards, returned)) {
      actions_[rank].push_back({Kind::backward_input, rank, done.inputs++});
    } else if (done.forwards < arrived && done.forwards - done.inputs < p_ - rank &&
               done.forwards - done.weights < 2 * p_ - rank) {
      actions_[rank].push_back({Kind::forward, rank, done.forwards++});
    } else if (done.weights < done.inputs) {
      actions_[rank].push_back({Kind::backward_weight, rank, done.weights++});
    }
  }

  int p_;
  int m_;
  std::vector<Done> done_;
  Schedule actions_;
};

}  // namespace

Schedule gpipe(const ScheduleShape& shape) {
  Schedule schedule(shape.ranks);
  for (int rank = 0; rank < shape.ranks; ++rank)
    for (Kind kind : {Kind::forward, Kind::backward})
      for (int m = 0; m < shape.micro_batches; ++m) schedule[rank].push_back({kind, rank, m});
  return schedule;
}

Schedule one_forward_one_backward(const ScheduleShape& shape) {
  Schedule schedule;
  for (int rank = 0; rank < shape.ranks; ++rank)
    schedule.push_back(in_turn(
        shape.micro_batches, std::min(shape.micro_batches, shape.ranks - 1 - rank),
        [&](int k) {
          return Action{Kind::forward, rank, k};
        },
        [&](int k) {
          return Action{Kind::backward, rank, k};
        }));
  return schedule;
}

// In rounds of p micro-batches: each chunk of the rank in turn.
Schedule interleaved(const ScheduleShape& shape) {
  const int p = shape.ranks, v = shape.virtual_stages, count = shape.micro_batches * v;
  Schedule schedule;
  for (int rank = 0; rank < p; ++rank) {
    const auto action = [&](Kind kind, int k) {
      const int turn = k % (p * v) / p;
      const int local = kind == Kind::forward ? turn : v - 1 - turn;
      return Action{kind, local * p + rank, k / (p * v) * p + k % p};
    };
    const int warm_up = std::min(count, (p - 1 - rank) * 2 + (v - 1) * p);
    schedule.push_back(in_turn(
        count, warm_up, [&](int k) { return action(Kind::forward, k); },
        [&](int k) { return action(Kind::backward, k); }));
  }
  return schedule;
}

Schedule zero_bubble(const ScheduleShape& shape) {
  return TickedRanks(shape).run();
}

}  // namespace cleave
