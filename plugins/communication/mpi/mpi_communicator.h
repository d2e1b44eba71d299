// Backend over an MPI communicator: chooses the algorithm of each operation.
#pragma once

#include <memory>
#include <string>

#include "algorithm.h"
#include "call.h"
#include "channel.h"
#include "cleave/backend.h"
#include "runtime.h"
#include "stages.h"
#include "topology.h"

namespace cleave::mpi {

/// Everything in host memory, and in GPU memory where there is a GPU.
cleave_capabilities mpi_capabilities();

class MpiBackend final : public Backend {
 public:
  /// Collective; takes a communicator that nobody else uses. `root`: finalize may finalise MPI.
  MpiBackend(std::shared_ptr<Runtime> runtime, MPI_Comm comm, Settings settings, Policy policy,
             bool root);

  int rank() const override { return channel_->rank; }
  int size() const override { return channel_->size; }
  cleave_capabilities capabilities() const override;
  const std::string& describe() const override { return description_; }
  const char* algorithm(cleave_op op, cleave_dtype dtype, int64_t bytes,
                        cleave_device device) const override;
  double network_bytes(cleave_op op, cleave_dtype dtype, int64_t bytes,
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
  Shape shape(cleave_device device) const;
  std::string describe_this() const;
  Algorithm choose(const Call& call, cleave_device device) const;
  int next_tag(const Call& call);
  std::shared_ptr<Task> make_task(const cleave_collective& collective, const Call& call);
  std::shared_ptr<Task> make_staged_task(const cleave_collective& collective, const Call& call);

  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Channel> channel_;
  Policy policy_;
  bool root_;
  std::shared_ptr<const Topology> topology_;
  std::shared_ptr<const StageMaker> stages_;  // shared with operations that have yet to start
  std::string description_;
};

}  // namespace cleave::mpi
