// Backend over an NCCL communicator: gives each operation its place in a stream's order.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "channel.h"
#include "cleave/backend.h"
#include "core.h"

namespace cleave::nccl {

/// On CUDA alone: every op and dtype.
cleave_capabilities cuda_capabilities();

/// What all communicators of a rank share.
struct Setup {
  cleave_bootstrap bootstrap;
  int device;
  std::string description;
};

class NcclBackend final : public Backend {
 public:
  /// Takes a core with one open link. `key` names this communicator alike on all its ranks, and no
  /// other one of the run.
  NcclBackend(const Setup& setup, std::shared_ptr<Core> core, Link& link, std::string key);
  ~NcclBackend() override;

  int rank() const override { return link_.rank; }
  int size() const override { return link_.size; }
  cleave_capabilities capabilities() const override { return cuda_capabilities(); }
  const std::string& describe() const override { return setup_.description; }
  /// NCCL decides for itself and doesn't say.
  const char* algorithm(cleave_op, cleave_dtype, int64_t, cleave_device) const override {
    return "nccl";
  }

  std::unique_ptr<Operation> submit(const cleave_collective& collective) override;
  /// What is submitted in between is enqueued by the outermost group_end.
  void group_begin() override { ++group_depth_; }
  void group_end() override;
  /// Waits for what this communicator has open: NCCL splits idle ones only.
  std::unique_ptr<Backend> split(int color, int key) override;

  void* allocate(uint64_t bytes, cleave_device device) override;
  void deallocate(void* memory, uint64_t bytes, cleave_device device) override;

  void abort() noexcept override;
  void finalize() override { core_->finalize(); }

 private:
  void start(const std::vector<std::shared_ptr<Job>>& jobs);
  Channel& channel(const cleave_collective& transfer);

  const Setup setup_;
  const std::string key_;
  const std::shared_ptr<Core> core_;
  Link& link_;
  void* barrier_element_ = nullptr;
  Loopback loopback_;
  std::map<std::pair<int, bool>, std::unique_ptr<Channel>> channels_;  // by peer, sends
  int group_depth_ = 0;
  std::vector<std::shared_ptr<Job>> held_;
  int num_splits_ = 0;
  std::vector<std::shared_ptr<Core>> failed_splits_;  // NCCL may still write to them
};

}  // namespace cleave::nccl
