// A CUDA runtime and an NCCL in host memory, linked into a test in place of the real ones: streams
// are threads, ranks are threads of this process with a device each. Only what the nccl plugin
// calls is here, so anything else fails the build. Data moves, but not as NCCL would move it: the
// rounding of sums is not tested by this.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <mutex>
#include <string>
#include <vector>

namespace cleave::fake {

/// A call of NCCL, or of CUDA where streams and events meet.
struct Call {
  int device;        ///< current on the calling thread: the rank, in these tests
  std::string name;  ///< "ncclAllReduce"
  size_t count = 0;  ///< elements
  int stream = 0;    ///< 0: none, or the default one
  int event = 0;
  int depth = 0;  ///< of NCCL's groups on the calling thread, outside of this call
  int peer = -1;  ///< root or peer
};

/// What a test decides beforehand.
struct Settings {
  int num_devices = 8;
  cudaError_t device_count_error = cudaSuccess;
  std::vector<std::string> bus_ids;  ///< by device; empty: all different
  int version = NCCL_VERSION_CODE;
  ncclResult_t init_result = ncclSuccess;
  ncclResult_t operation_result = ncclSuccess;
  bool holds = false;         ///< operations never complete, until their communicator is aborted
  bool abort_blocks = false;  ///< ncclCommAbort waits until this is false again
};

struct Counts {
  int streams = 0;
  int events = 0;
  int comms = 0;
  int allocations = 0;
};

/// Of the whole process; each test begins with reset().
void reset();
void set(const Settings& settings);
Settings settings();
std::vector<Call> calls();
void clear_calls();
/// Alive now, without default streams.
Counts counts();
/// Every communicator reports it from now on.
void set_async_error(ncclResult_t result);
/// Ranks that disagreed about an operation; empty when all was well.
std::string mismatch();

}  // namespace cleave::fake
