// Backend over an MPI communicator: chooses the algorithm of each operation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "channel.h"
#include "cleave/backend.h"
#include "runtime.h"

namespace cleave::mpi {

class MpiBackend final : public Backend {
 public:
  /// Takes a communicator that nobody else uses. `root`: finalize may finalise MPI.
  MpiBackend(std::shared_ptr<Runtime> runtime, MPI_Comm comm, Settings settings, bool root);

  int rank() const override { return channel_->rank; }
  int size() const override { return channel_->size; }
  cleave_capabilities capabilities() const override { return cpu_capabilities(); }
  const std::string& describe() const override { return runtime_->description(); }
  const char* algorithm(cleave_op op, cleave_dtype dtype, int64_t bytes,
                        cleave_device device) const override;

  std::unique_ptr<Operation> submit(const cleave_collective& collective) override;
  void group_begin() override {}  // submit never waits
  void group_end() override {}
  /// The ranks meet in an all_gather that can be aborted; only then in MPI_Comm_split, which can't.
  std::unique_ptr<Backend> split(int color, int key) override;

  void* allocate(uint64_t bytes, cleave_device device) override;
  void deallocate(void* memory, uint64_t bytes, cleave_device device) override;

  void abort() noexcept override { channel_->aborted.store(true, std::memory_order_release); }
  void finalize() override;

 private:
  using Stages = std::vector<std::unique_ptr<Machine>>;
  Stages choose(const cleave_collective& call, int64_t total_bytes);
  void choose_all_reduce(const cleave_collective& call, int64_t total_bytes, int tag,
                         Stages& stages);
  void choose_reduce_scatter(const cleave_collective& call, int64_t total_bytes, int tag,
                             Stages& stages);
  void choose_all_gather(const cleave_collective& call, int64_t total_bytes, int tag,
                         Stages& stages);
  std::unique_ptr<Machine> all_to_all(const cleave_collective& call, int tag) const;
  std::vector<int64_t> counts(const int64_t* given, int64_t count) const;
  int64_t total_bytes(const cleave_collective& call) const;

  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Channel> channel_;
  bool root_;
};

}  // namespace cleave::mpi
