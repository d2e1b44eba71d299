#include "stages.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "cleave/backend.h"
#include "cleave/error.h"
#include "exchange.h"
#include "halving.h"
#include "shared_large.h"

namespace cleave::mpi {

StageMaker::StageMaker(std::shared_ptr<Channel> channel, std::shared_ptr<const Topology> topology)
    : channel_(std::move(channel)), topology_(std::move(topology)) {
  by_rank_.rank = channel_->rank;
  by_rank_.ranks.resize(static_cast<size_t>(channel_->size));
  std::iota(by_rank_.ranks.begin(), by_rank_.ranks.end(), 0);
  if (!topology_->has_levels()) return;
  std::map<int, std::vector<int>> machines;
  for (const int rank : by_rank_.ranks)
    machines[topology_->machine_of[static_cast<size_t>(rank)]].push_back(rank);
  for (auto& [machine, ranks] : machines) ranks_of_machines_.push_back(std::move(ranks));
}

bool StageMaker::is_small(const Call& call) const {
  if (call.op != CLEAVE_ALL_GATHER) return call.bytes <= SmallLane::kBytes;
  return *std::max_element(call.counts.begin(), call.counts.end()) * call.element_bytes <=
         SmallLane::kBytes;
}

Stages StageMaker::make(const Call& call, Algorithm algorithm, int tag) const {
  switch (algorithm) {
    case Algorithm::shared:
      return shared(call);
    case Algorithm::direct:
      return direct(call, tag);
    case Algorithm::ring:
      return ring(call, tag);
    case Algorithm::halving:
      return halving(call, tag);
    case Algorithm::direct_then_ring:
      return direct_then_ring(call, tag);
    case Algorithm::two_level:
    case Algorithm::ordered_levels:
    case Algorithm::rounded_levels:
      return two_level(call, algorithm, tag);
    default:
      break;
  }
  Stages stages;
  if (algorithm == Algorithm::chain) {
    stages.push_back(std::make_unique<Broadcast>(channel_, call.recv, call.bytes, call.peer, tag));
  } else if (algorithm == Algorithm::dissemination) {
    stages.push_back(std::make_unique<Barrier>(channel_, tag));
  } else {
    const bool sends = call.op == CLEAVE_SEND;
    const Transfer transfer{call.peer, call.send, sends ? call.bytes : 0, call.recv,
                            sends ? 0 : call.bytes};
    stages.push_back(std::make_unique<Exchange>(channel_, std::vector{transfer}, tag, true));
  }
  return stages;
}

Stages StageMaker::shared(const Call& call) const {
  const bool is_small = this->is_small(call);
  SharedCall shared{call.op,   call.dtype, call.reduction, call.peer,
                    call.send, call.recv,  call.counts};
  if (call.op == CLEAVE_BROADCAST) {
    shared.send = call.recv;
    shared.counts.assign(static_cast<size_t>(channel_->size), 0);
    shared.counts[static_cast<size_t>(call.peer)] = call.count;
  } else if (call.op == CLEAVE_ALL_REDUCE && is_small) {
    shared.counts = {call.count};
  } else if (call.op == CLEAVE_ALL_REDUCE) {
    shared.counts = blocks(call.count, channel_->size);
  }
  Stages stages;
  if (is_small)
    stages.push_back(std::make_unique<SharedSmall>(topology_->node, std::move(shared)));
  else
    stages.push_back(std::make_unique<SharedLarge>(topology_->node, std::move(shared)));
  return stages;
}

Stages StageMaker::direct(const Call& call, int tag) const {
  Stages stages;
  if (call.op == CLEAVE_ALL_GATHER) {
    stages.push_back(direct_gather(call, tag));
  } else if (call.op == CLEAVE_ALL_TO_ALL) {
    stages.push_back(all_to_all(call, tag));
  } else {
    const bool is_whole = call.op == CLEAVE_ALL_REDUCE;
    const auto ranks = static_cast<size_t>(channel_->size);
    stages.push_back(
        direct_reduce({is_whole, call.dtype, call.dtype, call.reduction, call.send, call.recv,
                       is_whole ? std::vector<int64_t>(ranks, call.count) : call.counts, tag}));
  }
  return stages;
}

RingCall StageMaker::blocks_by_place(const Call& call, const Group& group, int tag) const {
  RingCall ring{call.op != CLEAVE_ALL_GATHER,
                call.op != CLEAVE_REDUCE_SCATTER,
                call.dtype,
                call.reduction,
                call.send,
                call.recv,
                {},
                {},
                tag,
                nullptr};
  if (call.op == CLEAVE_ALL_REDUCE) {  // any rank may sum any part
    ring.counts = blocks(call.count, channel_->size);
    ring.offsets = offsets(ring.counts);
    return ring;
  }
  const std::vector<int64_t> before = offsets(call.counts);
  for (const int rank : group.ranks) {
    ring.counts.push_back(call.counts[static_cast<size_t>(rank)]);
    ring.offsets.push_back(before[static_cast<size_t>(rank)]);
  }
  return ring;
}

Stages StageMaker::ring(const Call& call, int tag) const {
  Stages stages;
  stages.push_back(
      std::make_unique<Ring>(channel_, topology_->all, blocks_by_place(call, topology_->all, tag)));
  return stages;
}

Stages StageMaker::halving(const Call& call, int tag) const {
  Stages stages;
  stages.push_back(
      std::make_unique<Halving>(channel_, by_rank_, blocks_by_place(call, by_rank_, tag)));
  return stages;
}

Stages StageMaker::direct_then_ring(const Call& call, int tag) const {
  Call gather = call;
  gather.op = CLEAVE_ALL_GATHER;
  gather.counts = blocks(call.count, channel_->size);
  gather.send = call.recv_at(offsets(gather.counts)[static_cast<size_t>(channel_->rank)]);
  Stages stages;
  stages.push_back(direct_reduce({false, call.dtype, call.dtype, call.reduction, call.send,
                                  const_cast<void*>(gather.send), gather.counts, tag}));
  stages.push_back(std::make_unique<Ring>(channel_, topology_->all,
                                          blocks_by_place(gather, topology_->all, tag)));
  return stages;
}

std::unique_ptr<Machine> StageMaker::direct_reduce(DirectCall call) const {
  call.parts = ranks_of_machines_;
  return std::make_unique<DirectReduce>(channel_, by_rank_, std::move(call));
}

/// Of what crosses to be summed.
cleave_dtype sum_dtype(Algorithm algorithm, cleave_dtype dtype) {
  return algorithm == Algorithm::rounded_levels ? CLEAVE_FLOAT32 : dtype;
}

std::shared_ptr<Scratch> StageMaker::scratch(int64_t bytes) const {
  return std::make_shared<Scratch>(channel_->scratch->take(std::max<int64_t>(1, bytes)));
}

void StageMaker::reduce_across(RingCall ring, Algorithm algorithm, Stages& stages) const {
  const Group& group = topology_->across;
  if (algorithm == Algorithm::two_level) {
    stages.push_back(std::make_unique<Ring>(channel_, group, std::move(ring)));
    return;
  }
  const int64_t own = ring.offsets[static_cast<size_t>(group.rank)] * dtype_bytes(ring.dtype);
  void* sum = ring.gathers ? static_cast<std::byte*>(ring.recv) + own : ring.recv;
  stages.push_back(std::make_unique<DirectReduce>(channel_, group,
                                                  DirectCall{false,
                                                             sum_dtype(algorithm, ring.dtype),
                                                             ring.dtype,
                                                             ring.reduction,
                                                             ring.send,
                                                             sum,
                                                             ring.counts,
                                                             ring.tag,
                                                             {},
                                                             ring.keeps}));
  if (!ring.gathers) return;
  ring.reduces = false;
  ring.send = sum;
  stages.push_back(std::make_unique<Ring>(channel_, group, std::move(ring)));
}

Stages StageMaker::two_level(const Call& call, Algorithm algorithm, int tag) const {
  Stages stages;
  if (call.op == CLEAVE_ALL_REDUCE)
    two_level_all_reduce(call, algorithm, tag, stages);
  else if (call.op == CLEAVE_REDUCE_SCATTER)
    two_level_reduce_scatter(call, algorithm, tag, stages);
  else
    two_level_all_gather(call, tag, stages);
  return stages;
}

// The ranks of a machine sum a part each, the parts are summed across machines, then gathered.
void StageMaker::two_level_all_reduce(const Call& call, Algorithm algorithm, int tag,
                                      Stages& stages) const {
  const Node& node = *topology_->node;
  const std::vector<int64_t> parts = blocks(call.count, node.size());
  const auto me = static_cast<size_t>(node.rank());
  std::byte* own = call.recv_at(offsets(parts)[me]);
  const std::vector<int64_t> counts = blocks(parts[me], topology_->across.size());
  RingCall ring{true, true,   call.dtype, call.reduction, own, own, counts, offsets(counts),
                tag,  nullptr};
  SharedCall here{CLEAVE_REDUCE_SCATTER, call.dtype, call.reduction, 0, call.send, own, parts};
  here.keeps_float32 = algorithm == Algorithm::rounded_levels;
  if (here.keeps_float32) {
    ring.keeps = scratch(parts[me] * dtype_bytes(CLEAVE_FLOAT32));
    ring.send = here.recv = ring.keeps->data();
  }
  stages.push_back(std::make_unique<SharedLarge>(topology_->node, std::move(here)));
  reduce_across(std::move(ring), algorithm, stages);
  stages.push_back(std::make_unique<SharedLarge>(
      topology_->node,
      SharedCall{CLEAVE_ALL_GATHER, call.dtype, CLEAVE_SUM, 0, own, call.recv, parts}));
}

/// The blocks of a machine's ranks, which follow each other.
std::vector<int64_t> of_machine(const std::vector<int64_t>& counts, int machine, int ranks) {
  const auto first = counts.begin() + static_cast<int64_t>(machine) * ranks;
  return {first, first + ranks};
}

// Machine after machine, its ranks' blocks are summed here, one block by each rank; then each rank
// sums across machines what it has for the ranks at its place.
void StageMaker::two_level_reduce_scatter(const Call& call, Algorithm algorithm, int tag,
                                          Stages& stages) const {
  const Node& node = *topology_->node;
  const std::vector<int64_t> before = offsets(call.counts);
  RingCall ring{true, false, call.dtype, call.reduction, nullptr, call.recv, {}, {}, tag, nullptr};
  for (const int rank : topology_->across.ranks)
    ring.counts.push_back(call.counts[static_cast<size_t>(rank)]);
  ring.offsets = offsets(ring.counts);
  const int64_t sum_bytes = dtype_bytes(sum_dtype(algorithm, call.dtype));
  ring.keeps = scratch(sum(ring.counts) * sum_bytes);
  ring.send = ring.keeps->data();
  for (int machine = 0; machine < topology_->machines; ++machine) {
    const auto m = static_cast<size_t>(machine);
    const auto first = m * static_cast<size_t>(node.size());
    stages.push_back(std::make_unique<SharedLarge>(
        topology_->node,
        SharedCall{CLEAVE_REDUCE_SCATTER, call.dtype, call.reduction, 0,
                   call.send_at(before[first]), ring.keeps->data() + ring.offsets[m] * sum_bytes,
                   of_machine(call.counts, machine, node.size()),
                   algorithm == Algorithm::rounded_levels}));
  }
  reduce_across(std::move(ring), algorithm, stages);
}

// The same the other way round.
void StageMaker::two_level_all_gather(const Call& call, int tag, Stages& stages) const {
  const Node& node = *topology_->node;
  const std::vector<int64_t> before = offsets(call.counts);
  RingCall ring{false, true, call.dtype, CLEAVE_SUM, call.send, call.recv, {}, {}, tag, nullptr};
  for (const int rank : topology_->across.ranks) {
    ring.counts.push_back(call.counts[static_cast<size_t>(rank)]);
    ring.offsets.push_back(before[static_cast<size_t>(rank)]);
  }
  const std::vector<int64_t> own = ring.offsets;
  stages.push_back(std::make_unique<Ring>(channel_, topology_->across, std::move(ring)));
  for (int machine = 0; machine < topology_->machines; ++machine) {
    const auto m = static_cast<size_t>(machine);
    const auto first = m * static_cast<size_t>(node.size());
    stages.push_back(std::make_unique<SharedLarge>(
        topology_->node,
        SharedCall{CLEAVE_ALL_GATHER, call.dtype, CLEAVE_SUM, 0, call.recv_at(own[m]),
                   call.recv_at(before[first]), of_machine(call.counts, machine, node.size())}));
  }
}

std::unique_ptr<Machine> StageMaker::direct_gather(const Call& call, int tag) const {
  std::vector<Transfer> transfers;
  const int64_t own_bytes = call.counts[static_cast<size_t>(channel_->rank)] * call.element_bytes;
  std::byte* target = call.recv_at(0);
  for (int peer = 0; peer < channel_->size; ++peer) {
    const int64_t peer_bytes = call.counts[static_cast<size_t>(peer)] * call.element_bytes;
    transfers.push_back({peer, call.send, own_bytes, target, peer_bytes});
    target += peer_bytes;
  }
  return std::make_unique<Exchange>(channel_, std::move(transfers), tag);
}

std::unique_ptr<Machine> StageMaker::all_to_all(const Call& call, int tag) const {
  std::vector<Transfer> transfers;
  const std::byte* source = call.send_at(0);
  std::byte* target = call.recv_at(0);
  for (size_t peer = 0; peer < call.counts.size(); ++peer) {
    const int64_t send_bytes = call.send_counts[peer] * call.element_bytes;
    const int64_t recv_bytes = call.counts[peer] * call.element_bytes;
    transfers.push_back({static_cast<int>(peer), source, send_bytes, target, recv_bytes});
    source += send_bytes;
    target += recv_bytes;
  }
  // Starting behind itself, so that the ranks do not all send to rank 0 first.
  std::rotate(transfers.begin(), transfers.begin() + channel_->rank, transfers.end());
  return std::make_unique<Exchange>(channel_, std::move(transfers), tag);
}

}  // namespace cleave::mpi
