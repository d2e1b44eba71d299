// Which ranks of MPI_COMM_WORLD share a machine with this one, and their arenas.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "arena.h"

namespace cleave::mpi {

class Neighbours {
 public:
  /// Collective over MPI_COMM_WORLD; under the runtime's lock. Memory is shared among a machine's
  /// ranks when all of them can map all arenas, else by none of them.
  Neighbours();
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  /// A number for the machine of a rank, in the order of the machines' first ranks.
  int machine_of(int world_rank) const { return machine_of_[static_cast<size_t>(world_rank)]; }
  int num_machines() const { return num_machines_; }
  /// Where a rank's arena begins here; nullptr when it is out of reach.
  std::byte* arena_of(int world_rank) const { return arena_of_[static_cast<size_t>(world_rank)]; }
  /// This rank's own; nullptr where nothing is shared.
  Arena* arena() const { return arena_.get(); }
  /// Leaves all memory mapped: after a failure someone may still write there.
  void abandon();

 private:
  void share(MPI_Comm machine);

  std::vector<int> machine_of_;
  int num_machines_ = 1;
  std::vector<std::byte*> arena_of_;
  std::vector<Mapping> mappings_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace cleave::mpi
