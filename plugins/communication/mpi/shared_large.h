// Large collectives of ranks that share memory. Each rank reduces its part of the sum, so the work
// is shared by all cores.
//
// Where every rank's buffers lie in shared memory (Backend::allocate) a rank reads the others' data
// and writes the result where it belongs: S bytes over k ranks take each rank one read of S and,
// for all_reduce, one write of S. Otherwise data pass through the mailboxes in chunks that stay in
// the cache: one more copy of (k-1)/k S in, and of the results out. Sums are formed in rank order,
// 16-bit floats in float32 and rounded once, or by the caller.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "node.h"
#include "shared_call.h"
#include "task.h"

namespace cleave::mpi {

class SharedLarge final : public Machine {
 public:
  /// all_reduce, reduce_scatter, all_gather, broadcast, all_to_all with equal blocks.
  SharedLarge(std::shared_ptr<Node> node, SharedCall call);
  bool advance() override;
  bool finished() const override { return stage_ == Stage::finished; }
  std::vector<int> waits_for() const override;
  void cancel() noexcept override {}
  bool drained() noexcept override { return true; }

 private:
  enum class Stage { waiting_for_lane, announced, moving, closing, finished };
  /// How data reach the others: through mailboxes, read out of their buffers, written into them.
  enum class Way { staged, pull, push };

  LargeLane& lane(int local) const;
  bool all_reached(Counter LargeLane::*counter, uint64_t value) const;
  void publish(Counter LargeLane::*counter, uint64_t steps);
  uint64_t steps(int64_t chunks) const { return static_cast<uint64_t>(chunks); }
  bool has_reached(Counter LargeLane::*counter, int64_t chunks) const;

  void announce();
  bool all_have_announced();
  void choose_way();
  bool move();
  bool step_in();
  bool step_out();
  bool step_collect();
  void put_in(int64_t chunk);
  void reduce(int64_t chunk);
  void take_blocks(int64_t chunk);
  void show_own(int64_t chunk);
  void collect(int64_t chunk);

  int64_t count(int part) const { return call_.counts[static_cast<size_t>(part)]; }
  int64_t elements(int part, int64_t chunk) const;
  int64_t byte_offset(int part, int64_t chunk) const;
  const std::byte* source(int local, int part, int64_t chunk) const;
  std::byte* incoming(int local, int part, int64_t chunk) const;
  std::byte* result(int local, int64_t chunk) const;
  std::byte* own_target(int64_t chunk) const;

  std::shared_ptr<Node> node_;
  SharedCall call_;
  bool reduces_;
  bool exchanges_;  // all_to_all
  bool gathers_;    // every rank gets all blocks
  int64_t element_bytes_;
  int64_t result_bytes_;  // of an element
  int64_t chunk_elements_;
  std::vector<int64_t> offsets_;  // elements before each block
  int64_t num_chunks_ = 0;
  uint64_t number_;
  Stage stage_ = Stage::waiting_for_lane;
  Way way_ = Way::staged;
  int num_announced_ = 0;
  int64_t in_ = 0;
  int64_t out_ = 0;
  int64_t collected_ = 0;
  std::vector<const void*> sources_;
  std::vector<void*> targets_;
};

}  // namespace cleave::mpi
