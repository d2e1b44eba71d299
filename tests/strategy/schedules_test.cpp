// Schedules of the pipeline, without ranks: complete, free of deadlock, as long and as deep as
// said.
#include "../../plugins/strategy/pipeline/schedules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "cleave/balance.h"
#include "cleave/error.h"
#include "core/timeline.h"

namespace cleave {
namespace {

using Kind = Action::Kind;
using Schedule = std::vector<std::vector<Action>>;

TEST(Schedules, RunForAnyNumberOfMicroBatches) {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 17; ++m) {
      for (const Schedule& schedule :
           {gpipe({p, m, 1}), one_forward_one_backward({p, m, 1}), zero_bubble({p, m, 1})})
        EXPECT_NO_THROW(simulate(schedule, p, m)) << p << " " << m;
      for (int v = 2; v <= 3; ++v)
        if (m % p == 0) {
          EXPECT_NO_THROW(simulate(interleaved({p, m, v}), p * v, m)) << p << " " << m << " " << v;
        }
    }
}

TEST(Schedules, IdleAsLongAsTheirFormulasSay) {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 24; ++m) {
      const double bubble = (p - 1.0) / (m + p - 1);
      EXPECT_NEAR(bubble_fraction(simulate(gpipe({p, m, 1}), p, m)), bubble, 1e-12);
      EXPECT_NEAR(bubble_fraction(simulate(one_forward_one_backward({p, m, 1}), p, m)), bubble,
                  1e-12);
      if (m % p == 0) {
        EXPECT_NEAR(bubble_fraction(simulate(interleaved({p, m, 2}), 2 * p, m)),
                    (p - 1.0) / (2 * m + p - 1), 1e-12)
            << p << " " << m;
      }
      if (m >= p) {
        EXPECT_NEAR(bubble_fraction(simulate(zero_bubble({p, m, 1}), p, m)),
                    (p - 1.0) / (3 * m + p - 1), 1e-12)
            << p << " " << m;
      }
    }
}

int most(const std::vector<Action>& actions, Kind opens, Kind closes) {
  int open = 0, highest = 0;
  for (const Action& action : actions) {
    if (action.kind == opens) highest = std::max(highest, ++open);
    if (action.kind == closes) --open;
  }
  return highest;
}

TEST(Schedules, KeepNoMoreMicroBatchesOpenThanTheyMay) {
  for (int p = 1; p <= 6; ++p)
    for (int m = 1; m <= 20; ++m)
      for (int rank = 0; rank < p; ++rank) {
        EXPECT_EQ(max_open(one_forward_one_backward({p, m, 1})[rank]), std::min(m, p - rank));
        EXPECT_EQ(max_open(gpipe({p, m, 1})[rank]), m);
        const auto actions = zero_bubble({p, m, 1})[rank];
        EXPECT_LE(most(actions, Kind::forward, Kind::backward_input), p - rank);
        EXPECT_LE(most(actions, Kind::forward, Kind::backward_weight), 2 * p - rank);
      }
}

TEST(Schedules, MicroBatchesOfAChunkStayInOrder) {
  for (const Schedule& schedule : {gpipe({3, 6, 1}), one_forward_one_backward({3, 6, 1}),
                                   interleaved({3, 6, 2}), zero_bubble({3, 6, 1})})
    for (const auto& actions : schedule)
      for (int kind = 0; kind < 4; ++kind)
        for (int chunk = 0; chunk < 6; ++chunk) {
          int next = 0;
          for (const Action& action : actions)
            if (action.kind == static_cast<Kind>(kind) && action.chunk == chunk) {
              EXPECT_EQ(action.micro_batch, next++);
            }
        }
}

// What a rank sends to another (or awaits from it) in order: is it a gradient, of which chunk and
// micro-batch.
using Message = std::tuple<bool, int, int>;
using Messages = std::map<std::pair<int, int>, std::vector<Message>>;  // by sender and receiver

void add_messages(const std::vector<Action>& actions, int ranks, int chunks, Messages& sent,
                  Messages& awaited) {
  for (const Action& action : actions) {
    const int rank = action.chunk % ranks, step = action.kind == Kind::forward ? 1 : -1;
    const int to = action.chunk + step, from = action.chunk - step;
    if (action.kind == Kind::backward_weight) continue;
    if (to >= 0 && to < chunks && to % ranks != rank)
      sent[{rank, to % ranks}].push_back({step < 0, action.chunk, action.micro_batch});
    if (from >= 0 && from < chunks && from % ranks != rank)
      awaited[{from % ranks, rank}].push_back({step < 0, from, action.micro_batch});
  }
}

TEST(Schedules, AwaitAnotherRanksMessagesInTheOrderInWhichItSendsThem) {
  for (int p = 2; p <= 6; ++p)
    for (int m = 1; m <= 17; ++m)
      for (int v = 1; v <= 3; ++v) {
        std::vector<Schedule> schedules;
        if (v == 1)
          schedules = {gpipe({p, m, 1}), one_forward_one_backward({p, m, 1}),
                       zero_bubble({p, m, 1})};
        else if (m % p == 0)
          schedules = {interleaved({p, m, v})};
        for (size_t i = 0; i < schedules.size(); ++i) {
          Messages sent, awaited;
          for (const auto& actions : schedules[i]) add_messages(actions, p, p * v, sent, awaited);
          EXPECT_EQ(sent, awaited) << p << " ranks, " << m << " micro-batches, " << v << ", " << i;
        }
      }
}

TEST(Timeline, RefusesSchedulesThatCannotRun) {
  const auto text = [](const Schedule& schedule, int chunks, int m) -> std::string {
    try {
      simulate(schedule, chunks, m);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  const Action f0{Kind::forward, 0, 0}, b0{Kind::backward, 0, 0};
  EXPECT_NE(text({{b0, f0}}, 1, 1).find("waits at its backward of chunk 0, micro-batch 0"),
            std::string::npos);
  EXPECT_NE(text({{f0}}, 1, 1).find("lacks backward_input of chunk 0"), std::string::npos);
  EXPECT_NE(text({{f0, f0, b0}}, 1, 1).find("forward of chunk 0, micro-batch 0 twice"),
            std::string::npos);
  EXPECT_NE(text({{f0, b0}, {f0, b0}}, 2, 1).find("which is rank 0's"), std::string::npos);
  EXPECT_NE(text({{{Kind::forward, 0, 7}}}, 1, 1).find("but there are 1 chunks"),
            std::string::npos);
}

TEST(Timeline, DrawsARankALine) {
  EXPECT_EQ(draw_text(simulate(one_forward_one_backward({2, 2, 1}), 2, 2)),
            "  0: F0 F1  .  . B0 B0  . B1 B1\n"
            "  1:  . F0 B0 B0 F1 B1 B1  .  .\n");
  const std::string svg = draw_svg(simulate(zero_bubble({2, 2, 1}), 2, 2));
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_NE(svg.find("stage 1"), std::string::npos);
}

TEST(Balance, MakesTheMostExpensivePartCheapest) {
  EXPECT_EQ(balance({1, 1, 1, 1, 1, 1, 1}, 3), (std::vector<int>{3, 2, 2}));
  EXPECT_EQ(balance({0, 5, 5, 5, 9}, 2), (std::vector<int>{3, 2}));
  EXPECT_EQ(balance({4}, 1), (std::vector<int>{1}));
  EXPECT_EQ(balance({9, 1, 1}, 3), (std::vector<int>{1, 1, 1}));
}

}  // namespace
}  // namespace cleave
