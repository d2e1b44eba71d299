#include "runtime.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "cleave/error.h"
#include "library_info.h"

namespace cleave::mpi {
namespace {

using namespace std::chrono_literals;

// How soon the thread notices a small operation that its submitter does not wait for.
constexpr auto kTick = 1ms;
// How long the thread keeps looking every kTick before it sleeps until it is woken.
constexpr int kTicksBeforeSleep = 100;
// Between two looks of the thread when nothing moved: short enough to keep a link busy. Twice as
// long after each look in vain, up to the second: a receive that is posted long before its message
// (a pipeline's) leaves the core to the rank's own computation.
constexpr auto kPoll = 20us;
constexpr auto kLongestPoll = 640us;
// A waiting rank gives its core away after each look, and sleeps between looks after this many.
constexpr int kYields = 2000;

/// Between two looks of a waiting rank.
class Patience {
 public:
  void after(bool moved) {
    if (moved)
      looks_ = 0;
    else if (++looks_ < kYields)
      sched_yield();
    else
      std::this_thread::sleep_for(kPoll);
  }

 private:
  int looks_ = 0;
};

void refuse_finalised_mpi() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized)
    throw RuntimeError(
        "communication backend mpi: MPI was finalised in this process and can't start again; "
        "create "
        "all communicators before the last one is finalised");
}

/// Returns whether this call initialised MPI.
bool initialise_mpi() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  int provided = MPI_THREAD_SINGLE;
  if (initialized)
    check(MPI_Query_thread(&provided), "MPI_Query_thread");
  else
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_SERIALIZED)
    throw RuntimeError(message(
        "communication backend mpi: MPI grants thread level ", provided, ", needs ",
        MPI_THREAD_SERIALIZED,
        " (MPI_THREAD_SERIALIZED), since a thread progresses transfers while "
        "the ranks compute; use an MPI built with threads, or initialise it with that level"));
  return !initialized;
}

/// mpirun binds a rank to a core, or to some; there the thread would stop the rank's computation
/// instead of running beside it.
void leave_the_ranks_cores() {
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof all);  // the kernel takes those that the process may have
  pthread_setaffinity_np(pthread_self(), sizeof all, &all);
}

}  // namespace

class Runtime::Caller {
 public:
  explicit Caller(Runtime& runtime) : runtime_(runtime) { ++runtime_.callers_; }
  ~Caller() {
    if (--runtime_.callers_ > 0) return;
    const std::lock_guard lock(runtime_.mutex_);
    if (!runtime_.open_.empty()) runtime_.wake_.notify_one();
  }

 private:
  Runtime& runtime_;
};

std::shared_ptr<Runtime> Runtime::acquire(const Transport& transport, int world_size,
                                          int local_size) {
  static std::mutex mutex;
  static std::weak_ptr<Runtime> current;
  const std::lock_guard lock(mutex);
  refuse_finalised_mpi();
  std::shared_ptr<Runtime> runtime = current.lock();
  prepare_transport(transport, world_size, local_size);
  if (!runtime) current = runtime = std::shared_ptr<Runtime>(new Runtime);
  check_transport(transport, runtime->pml_);
  return runtime;
}

Runtime::Runtime()
    : owns_mpi_(initialise_mpi()),
      pml_(chosen_pml()),
      description_(library_version() + ", pml " + pml_),
      device_(Device::load()),
      takes_gpu_memory_(device_ && mpi_takes_gpu_memory()) {
  thread_ = std::thread([this] { run_thread(); });
}

Runtime::~Runtime() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  // MPI, or a neighbour, may write to these at any time until the process ends.
  if (neighbours_ && (!open_.empty() || !failed_.empty() || has_failed_)) neighbours_->abandon();
  if (!open_.empty()) new auto(std::move(open_));
  if (!failed_.empty()) new auto(std::move(failed_));
}

void Runtime::locked(const std::function<void()>& call) {
  const std::lock_guard lock(mutex_);
  call();
}

void Runtime::meet_neighbours() {
  if (!neighbours_) neighbours_ = std::make_unique<Neighbours>();
}

void Runtime::submit(std::shared_ptr<Task> task, bool large) {
  const std::lock_guard lock(mutex_);
  task->pass();
  open_.push_back(std::move(task));
  bury_finished();
  if (!open_.empty() && (large || asleep_)) wake_.notify_one();
}

cleave_status Runtime::poll(const Task& task) {
  if (task.status() == CLEAVE_PENDING) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) progress();
  }
  return task.status();
}

cleave_status Runtime::wait(const Task& task) {
  if (task.status() != CLEAVE_PENDING) return task.status();
  const Caller caller(*this);
  Patience patience;
  while (true) {
    bool moved;
    {
      const std::lock_guard lock(mutex_);
      moved = progress();
    }
    if (task.status() != CLEAVE_PENDING) return task.status();
    patience.after(moved);
  }
}

bool Runtime::has_open(const Channel& channel) const {
  return std::any_of(open_.begin(), open_.end(),
                     [&](const auto& task) { return &task->channel() == &channel; });
}

void Runtime::drain(const Channel& channel) {
  const Caller caller(*this);
  Patience patience;
  while (true) {
    bool moved;
    {
      const std::lock_guard lock(mutex_);
      if (!has_open(channel)) return;
      moved = progress();
    }
    patience.after(moved);
  }
}

bool Runtime::progress() {
  bool moved = false;
  for (const auto& task : open_) moved |= task->pass();
  if (moved) bury_finished();
  std::erase_if(failed_, [](const auto& task) { return task->drained(); });
  return moved;
}

void Runtime::bury_finished() {
  std::erase_if(open_, [&](const auto& task) {
    if (task->status() == CLEAVE_PENDING) return false;
    if (task->status() == CLEAVE_OK) return true;
    has_failed_ = true;
    if (!task->drained()) failed_.push_back(task);
    return true;
  });
}

void Runtime::run_thread() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);  // signals are the host's
  pthread_setname_np(pthread_self(), "cleave-mpi");
  leave_the_ranks_cores();
  prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds; the default of 50 us would double kPoll
  std::unique_lock lock(mutex_);
  auto pause = kPoll;
  while (!stopping_) {
    if (open_.empty()) {
      rest(lock);
      pause = kPoll;
    } else if (callers_ > 0) {
      wake_.wait_for(lock, kTick);
      pause = kPoll;
    } else if (progress()) {
      lock.unlock();
      sched_yield();
      lock.lock();
      pause = kPoll;
    } else {
      const bool is_woken = wake_.wait_for(lock, pause) == std::cv_status::no_timeout;
      pause = is_woken ? kPoll : std::min(2 * pause, kLongestPoll);
    }
  }
}

/// Until something is open or the runtime stops.
void Runtime::rest(std::unique_lock<std::mutex>& lock) {
  const auto needed = [&] { return stopping_ || !open_.empty(); };
  for (int tick = 0; tick < kTicksBeforeSleep; ++tick)
    if (wake_.wait_for(lock, kTick, needed)) return;
  asleep_ = true;
  wake_.wait(lock, needed);
  asleep_ = false;
}

void Runtime::add_root() {
  const std::lock_guard lock(mutex_);
  ++roots_;
}

void Runtime::remove_root() {
  {
    const std::lock_guard lock(mutex_);
    if (--roots_ > 0 || !owns_mpi_) return;
    if (!open_.empty() || !failed_.empty())
      throw RuntimeError(message("MPI is not finalised: ", open_.size() + failed_.size(),
                                 " operations are still in flight"));
    stopping_ = true;
    wake_.notify_one();
  }
  thread_.join();
  check(MPI_Finalize(), "MPI_Finalize");
}

}  // namespace cleave::mpi
