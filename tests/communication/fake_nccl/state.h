// Inside of the fake: what its two halves share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "fake.h"

namespace cleave::fake {

/// A thread that runs tasks in order.
class Executor {
 public:
  explicit Executor(int id);
  ~Executor();  // what is queued still runs
  void push(std::function<void()> task);
  int id() const { return id_; }

 private:
  const int id_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ends_ = false;
  std::thread thread_;
};

/// A recorded place in a stream.
class Marker {
 public:
  void set();
  void wait();
  bool is_set() const { return set_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> set_ = false;
};

struct State {
  std::mutex mutex;
  Settings settings;
  Counts counts;
  std::vector<Call> calls;
  std::string mismatch;
  ncclResult_t async_error = ncclSuccess;
  std::condition_variable changed;
  int next_id = 1;
};
State& state();

void record(Call call);
int current_device();
Executor& executor(cudaStream_t stream);

}  // namespace cleave::fake

struct CUstream_st {
  explicit CUstream_st(int id) : executor(id) {}
  cleave::fake::Executor executor;
};

struct CUevent_st {
  int id;
  std::mutex mutex;
  std::shared_ptr<cleave::fake::Marker> marker;
};
