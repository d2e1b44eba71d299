// What strategies and the host use to communicate: a typed wrapper over communicator.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cleave/communicator.h"

namespace cleave {

enum class ReduceOp { sum = CLEAVE_SUM, max = CLEAVE_MAX };

/// Bytes that a rank sends for an operation, over those of the larger buffer: all_reduce 2(n-1)/n;
/// reduce_scatter, all_gather, all_to_all (n-1)/n; broadcast, send 1; recv, barrier 0 (nccl-tests,
/// PERFORMANCE.md). Also the bus bandwidth over the algorithm bandwidth.
double wire_factor(int32_t op, int ranks);

/// What one rank has moved and waited for; the host owns one per rank and reads it each step.
struct CommStats {
  int64_t payload_bytes[CLEAVE_NUM_OPS] = {};  ///< handed to the backend (the larger buffer)
  int64_t calls[CLEAVE_NUM_OPS] = {};
  double wire_bytes = 0;   ///< payload x wire_factor
  int64_t open_works = 0;  ///< started and not yet released
  double exposed_ms = 0;   ///< time that the main thread was blocked in waits
};

/// Receives the life of each operation, for traces: called on the thread that submits or waits.
/// `name` is "<communicator>.<op>", times are from std::chrono::steady_clock.
using CommTrace = std::function<void(const std::string& name, int64_t bytes,
                                     std::chrono::steady_clock::time_point submitted,
                                     std::chrono::steady_clock::time_point completed)>;

namespace detail {
struct CommCore;
}

/// A started operation. It holds references to its tensors. Movable; destroying it before wait()
/// detaches it: the operation completes in the background (the tensors stay alive until then).
class Work {
 public:
  Work();
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  bool valid() const { return state_ != nullptr; }
  /// Never blocks; throws as wait() does when the operation failed.
  bool done();
  /// Results are usable by what follows: CPU tensors: blocks; CUDA: the current stream waits.
  /// Throws RuntimeError naming communicator, op, sequence number, bytes and reason.
  void wait();
  /// Blocks the calling thread until the result can be read on the host.
  void wait_host();

 private:
  friend class Comm;
  friend struct detail::CommCore;
  struct State;
  explicit Work(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A group of ranks. All methods are collective over the group and called in the same order on all
/// its ranks, with equal dtypes and sizes, from the rank's main thread. Tensors must be dense; a
/// backend that lacks op x dtype x device is a RuntimeError that names all three (the solver asks
/// `supports` before step 1).
class Comm {
 public:
  /// Takes ownership of `communicator`. `name` appears in messages and traces ("world", "data").
  /// `stats` outlives the Comm. timeout_ms 0: no limit.
  Comm(cleave_communicator* communicator, std::string name, CommStats* stats, int64_t timeout_ms);
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const;
  std::string describe() const;
  bool supports(cleave_op op, at::ScalarType dtype, at::DeviceType device) const;
  /// How the backend would do the operation ("ring"), reductions: their sum; `bytes` are those of
  /// the larger buffer. Local. Throws RuntimeError when it can't do it at all.
  std::string algorithm(cleave_op op, at::ScalarType dtype, int64_t bytes,
                        at::DeviceType device = at::kCPU) const;
  /// Bytes, without headers, that all ranks together send to other machines in that operation;
  /// equal blocks, a broadcast is rank 0's. Negative: the backend does not know. Local.
  double network_bytes(cleave_op op, at::ScalarType dtype, int64_t bytes,
                       at::DeviceType device = at::kCPU) const;
  void set_trace(CommTrace trace);

  /// In place: `tensor` becomes the sum (max) over the ranks; bitwise equal on all of them.
  Work all_reduce(at::Tensor tensor, ReduceOp op = ReduceOp::sum);
  /// `output` (k elements) becomes block rank() of the sum of all `input`s (size() x k elements);
  /// it may be that block of its own input.
  Work reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op = ReduceOp::sum);
  /// Blocks of counts[r] elements.
  Work reduce_scatter_v(at::Tensor output, at::Tensor input, std::vector<int64_t> counts,
                        ReduceOp op = ReduceOp::sum);
  /// `output` (size() x k) becomes all `input`s (k) in rank order; input may be its own block.
  Work all_gather(at::Tensor output, at::Tensor input);
  Work all_gather_v(at::Tensor output, at::Tensor input, std::vector<int64_t> counts);
  Work broadcast(at::Tensor tensor, int root);
  Work all_to_all(at::Tensor output, at::Tensor input);
  Work all_to_all_v(at::Tensor output, at::Tensor input, std::vector<int64_t> receive_counts,
                    std::vector<int64_t> send_counts);
  Work send(at::Tensor tensor, int peer, int tag = 0);
  Work recv(at::Tensor tensor, int peer, int tag = 0);
  void barrier();

  /// Operations inside start together: sends and receives in any order can't deadlock.
  void group_begin();
  void group_end();

  /// A flat tensor of `elements` from memory that the backend moves best; freed with the tensor.
  at::Tensor allocate(int64_t elements, at::ScalarType dtype, at::Device device);

  /// Collective. color -1: not a member, returns nullptr.
  std::unique_ptr<Comm> split(int color, int key, std::string name);

  /// Any thread; never blocks; every waiter of this group ends with a RuntimeError.
  void abort() noexcept;
  /// Waits until works that were destroyed early are done: on a device one is not done by wait().
  void wait_for_released();
  /// Collective, once, before destruction when the run ended well. Waits for detached works.
  void finalize();

 private:
  Work submit(cleave_collective call, at::Tensor send, at::Tensor recv);

  // shared with works and allocated tensors, which may outlive this object
  std::shared_ptr<detail::CommCore> core_;
  int rank_;
  int size_;
};

}  // namespace cleave
