#include "neighbours.h"

#include <algorithm>

#include "channel.h"

namespace cleave::mpi {
namespace {

struct Ranks {
  int rank;
  int size;
};

Ranks ranks_of(MPI_Comm comm) {
  Ranks ranks{};
  check(MPI_Comm_rank(comm, &ranks.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &ranks.size), "MPI_Comm_size");
  return ranks;
}

std::vector<int> gather(MPI_Comm comm, int mine) {
  std::vector<int> all(static_cast<size_t>(ranks_of(comm).size));
  check(MPI_Allgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, comm), "MPI_Allgather");
  return all;
}

}  // namespace

Neighbours::Neighbours() {
  const Ranks world = ranks_of(MPI_COMM_WORLD);
  MPI_Comm machine = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world.rank, MPI_INFO_NULL,
                            &machine),
        "MPI_Comm_split_type");
  int first = world.rank;
  check(MPI_Bcast(&first, 1, MPI_INT, 0, machine), "MPI_Bcast");
  machine_of_ = gather(MPI_COMM_WORLD, first);
  std::vector<int> firsts = machine_of_;
  std::sort(firsts.begin(), firsts.end());
  firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
  num_machines_ = static_cast<int>(firsts.size());
  for (int& number : machine_of_)
    number =
        static_cast<int>(std::lower_bound(firsts.begin(), firsts.end(), number) - firsts.begin());
  arena_of_.resize(static_cast<size_t>(world.size));
  share(machine);
  check(MPI_Comm_free(&machine), "MPI_Comm_free");
}

Neighbours::~Neighbours() = default;

void Neighbours::share(MPI_Comm machine) {
  const Ranks here = ranks_of(machine);
  if (here.size == 1) return;
  arena_ = Arena::create();
  const ArenaAddress mine = arena_ ? arena_->address() : ArenaAddress{};
  std::vector<ArenaAddress> addresses(static_cast<size_t>(here.size));
  check(
      MPI_Allgather(&mine, sizeof mine, MPI_BYTE, addresses.data(), sizeof mine, MPI_BYTE, machine),
      "MPI_Allgather");
  int is_shared = arena_ ? 1 : 0;
  for (int rank = 0; rank < here.size; ++rank) {
    mappings_.push_back(rank == here.rank ? Mapping()
                                          : map_arena(addresses[static_cast<size_t>(rank)]));
    if (rank != here.rank && !mappings_.back().data()) is_shared = 0;
  }
  int all_shared = 0;
  check(MPI_Allreduce(&is_shared, &all_shared, 1, MPI_INT, MPI_MIN, machine), "MPI_Allreduce");
  if (!all_shared) {
    mappings_.clear();
    arena_.reset();
    return;
  }
  int world_rank = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &world_rank), "MPI_Comm_rank");
  const std::vector<int> world_ranks = gather(machine, world_rank);
  for (int rank = 0; rank < here.size; ++rank)
    arena_of_[static_cast<size_t>(world_ranks[static_cast<size_t>(rank)])] =
        rank == here.rank ? arena_->begin() : mappings_[static_cast<size_t>(rank)].data();
}

void Neighbours::abandon() {
  for (Mapping& mapping : mappings_) mapping.abandon();
  if (arena_) arena_->abandon();
}

}  // namespace cleave::mpi
