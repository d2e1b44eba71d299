// Orders of forward and backward over pipeline ranks. Pure.
#pragma once

#include <string>
#include <vector>

#include "cleave/schedule.h"

namespace cleave {

struct ScheduleShape {
  int ranks;
  int micro_batches;
  int virtual_stages;  ///< chunks a rank holds
};

/// All forwards, then all backwards (Huang et al. 2019, arXiv:1811.06965).
std::vector<std::vector<Action>> gpipe(const ScheduleShape& shape);

/// A backward as soon as there is one; rank i has at most min(m, p - i) micro-batches open
/// (PipeDream-Flush, Narayanan et al. 2021, arXiv:2006.09503). Bubble (p-1)/(m+p-1).
std::vector<std::vector<Action>> one_forward_one_backward(const ScheduleShape& shape);

/// The same over v chunks a rank, which divide the bubble by v: (p-1)/(v m+p-1); m must be a
/// multiple of p (Narayanan et al. 2021, arXiv:2104.04473).
std::vector<std::vector<Action>> interleaved(const ScheduleShape& shape);

/// Backward in halves, weights where a rank would wait: bubble (p-1)/(3 m+p-1) when the three take
/// equally long and m >= p (ZB-H1, Qi et al. 2023, arXiv:2401.10241). Rank i has at most p - i
/// micro-batches between forward and backward_input, and 2 p - i between forward and
/// backward_weight. Between the halves a micro-batch keeps the input and the output's gradient of
/// each product: of the head those of all logits.
std::vector<std::vector<Action>> zero_bubble(const ScheduleShape& shape);

}  // namespace cleave
