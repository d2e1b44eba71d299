#include "partition.h"

#include <algorithm>

#include "cleave/error.h"

namespace cleave {

namespace {

std::string divisors(int64_t n) {
  std::string list;
  for (int64_t d = 1; d <= n; ++d)
    if (n % d == 0) list += (list.empty() ? "" : ", ") + std::to_string(d);
  return list;
}

// All three placements: the box's range in `dim`, and what the ranks along `axis` hold.
void cut(Parameter& parameter, int dim, int64_t begin, int64_t end, const std::string& axis) {
  for (Placement* placement :
       {&parameter.value_placement, &parameter.gradient_placement, &parameter.state_placement}) {
    placement->box.begin[dim] = begin;
    placement->box.end[dim] = end;
    placement->axes[axis] = AxisKind::shard;
  }
}

// Each block is held by `ranks / blocks` neighbours, which see different queries.
void share_blocks(Plan& plan, Parameter& parameter, int64_t blocks, int ranks, int rank) {
  const int sharers = static_cast<int>(ranks / blocks);
  plan.divided_axes[kAxis] = sharers;
  const int64_t block = rank / sharers, length = parameter.split.block;
  const std::string axis = kAxis;
  cut(parameter, parameter.split.dim, block * length, (block + 1) * length, axis + ".outer");
  for (Placement* placement :
       {&parameter.value_placement, &parameter.gradient_placement, &parameter.state_placement})
    placement->axes[axis + ".inner"] = AxisKind::replicate;
  parameter.gradient_placement.axes[axis + ".inner"] = AxisKind::partial;
}

void partition(Plan& plan, Parameter& parameter, int ranks, int rank) {
  const MatrixSplit& split = parameter.split;
  const int64_t size = parameter.shape[split.dim], blocks = size / split.block;
  if (split.may_be_shared && blocks < ranks && ranks % blocks == 0)
    return share_blocks(plan, parameter, blocks, ranks, rank);
  if (blocks % ranks != 0 && !split.may_be_uneven)
    throw ConfigError(message("mesh.tensor = ", ranks, " does not divide ", parameter.name, ": ",
                              blocks, split.block > 1 ? " heads" : " rows or columns",
                              "; use a divisor: ", divisors(blocks)));
  // the first blocks % ranks ranks get one more
  const int64_t share = blocks / ranks, rest = blocks % ranks;
  const auto first = [&](int64_t r) { return (r * share + std::min(r, rest)) * split.block; };
  cut(parameter, split.dim, first(rank), first(rank + 1), kAxis);
}

}  // namespace

void partition_matrices(Plan& plan) {
  const int ranks = plan.mesh.size(kAxis), rank = plan.mesh.coordinate(plan.rank, kAxis);
  for (Parameter* parameter : plan.parameters)
    if (parameter->split.dim >= 0) partition(plan, *parameter, ranks, rank);
}

}  // namespace cleave
