// One test body, run by every rank: as threads over the local plugin (local_ranks.cpp) or over nccl
// with a fake of its library (nccl_ranks.cpp), or as the processes that mpirun started
// (mpi_ranks.cpp). A test links one of them.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cleave/communicator.h"
#include "cleave/plugin.h"

namespace cleave::testing {

/// Ends a test that would hang.
constexpr int64_t kTestTimeoutMs = 60'000;

struct Variant {
  int ranks;
  int64_t segment_bytes;           // of backends that have segments; 0: their default
  const char* algorithm = "auto";  // of backends that have a choice
  bool deterministic = false;      // told so at creation; `local` always is
  const char* wire = "auto";       // mpi
};
void PrintTo(const Variant& variant, std::ostream* out);

class Work {
 public:
  Work(const cleave_communicator_api* api, cleave_work* work) : api_(api), work_(work) {}
  Work(Work&& other) noexcept;
  Work& operator=(Work&&) = delete;
  ~Work();
  int32_t wait() { return api_->work_wait_host(work_); }
  int32_t poll() { return api_->work_poll(work_); }

 private:
  const cleave_communicator_api* api_;
  cleave_work* work_;
};

/// A communicator that is destroyed with this.
class Communicator {
 public:
  explicit Communicator(cleave_communicator* communicator) : c_(communicator) {}
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&&) = delete;
  ~Communicator();

  int rank() const { return c_->api->rank(c_); }
  int size() const { return c_->api->size(c_); }
  std::string error() const { return c_->api->error(c_); }
  std::string describe() const { return c_->api->describe(c_); }
  cleave_capabilities capabilities() const;
  void abort() { c_->api->abort(c_); }
  cleave_communicator* get() const { return c_; }

  /// Starts the operation; the submission itself must succeed.
  Work start(const cleave_collective& call);
  /// Runs it to the end and returns the status of the wait.
  int32_t run(const cleave_collective& call);
  void barrier();
  /// Must succeed; nullptr for color -1.
  cleave_communicator* split(int color, int key);

 private:
  cleave_communicator* c_;
};

cleave_collective collective(cleave_op op, cleave_dtype dtype, const void* send, void* recv,
                             int64_t count);
cleave_collective transfer(cleave_op op, cleave_dtype dtype, void* data, int64_t count, int peer,
                           int tag = 0);

/// What this program can run: filled by the file that is linked.
std::vector<Variant> variants();
/// "local", "mpi" or "nccl".
std::string backend_name();
/// Of `ranks` ranks, those that are on one machine with the first.
int ranks_per_machine(int ranks);
/// Where its buffers are.
cleave_device backend_device();
/// Runs `body` on every rank with a communicator over all of them that no other test has used.
void run_ranks(const Variant& variant, const std::function<void(Communicator&)>& body);

/// Ends what run_ranks started; processes only, collective.
void finalize_ranks();

const cleave_plugin& load_plugin(const char* path);

class Ranks : public ::testing::TestWithParam<Variant> {
 protected:
  void on_ranks(const std::function<void(Communicator&)>& body) { run_ranks(GetParam(), body); }
};

}  // namespace cleave::testing
