// MPI is one per process, and so is this: its initialisation, the lock around its calls, the list
// of open operations and the thread that moves them while the ranks compute.
//
// MPI progresses only inside MPI calls. Whoever waits or polls makes them; when nobody does, the
// thread takes over: at once for large operations, within kTick for small ones (waking it costs
// more than a small message). It sleeps while nothing is open.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device.h"
#include "neighbours.h"
#include "scratch.h"
#include "task.h"
#include "transport.h"

namespace cleave::mpi {

class Runtime {
 public:
  /// The process's runtime; initialises MPI (thread level serialized) unless that was done already,
  /// in which case it is not finalised either. Throws when MPI can't be used. What carries messages
  /// is settled by the first call; a later one that asks for something else is refused.
  static std::shared_ptr<Runtime> acquire(const Transport& transport, int world_size,
                                          int local_size);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const std::string& description() const { return description_; }
  ScratchPool& scratch() { return scratch_; }
  /// Collective over MPI_COMM_WORLD, once, before `neighbours`; under the lock.
  void meet_neighbours();
  Neighbours& neighbours() { return *neighbours_; }
  /// nullptr without a GPU.
  Device* device() { return device_.get(); }
  /// Whether MPI says that it can send GPU memory.
  bool takes_gpu_memory() const { return takes_gpu_memory_; }

  /// Makes the task's first step. `large`: the thread takes over at once.
  void submit(std::shared_ptr<Task> task, bool large);
  cleave_status poll(const Task& task);
  cleave_status wait(const Task& task);
  /// Waits until no operation of the channel is open.
  void drain(const Channel& channel);
  /// Runs `call`, which may use MPI, under the lock.
  void locked(const std::function<void()>& call);

  void add_root();
  /// The last one finalises MPI if this initialised it. Collective then.
  void remove_root();

 private:
  class Caller;

  Runtime();
  bool progress();
  void bury_finished();
  bool has_open(const Channel& channel) const;
  void run_thread();
  void rest(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Task>> open_;
  std::vector<std::shared_ptr<Task>> failed_;  // MPI may still use their buffers
  ScratchPool scratch_;
  std::unique_ptr<Neighbours> neighbours_;
  std::atomic<int> callers_{0};  // threads inside wait(): they progress
  bool asleep_ = false;          // the thread needs a notification
  bool has_failed_ = false;
  bool stopping_ = false;
  bool owns_mpi_ = false;
  int roots_ = 0;
  std::string pml_;
  std::string description_;
  std::unique_ptr<Device> device_;
  bool takes_gpu_memory_;
  std::thread thread_;
};

}  // namespace cleave::mpi
