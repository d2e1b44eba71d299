#include "communicator.h"

#include <algorithm>

#include "cleave/error.h"
#include "nccl_config.h"

namespace cleave::nccl {
namespace {

constexpr int64_t kSplitTimeoutMs = 60'000;

class NcclOperation final : public Operation {
 public:
  NcclOperation(std::shared_ptr<Core> core, std::shared_ptr<Job> job)
      : core_(std::move(core)), job_(std::move(job)) {}

  cleave_status poll() override { return core_->poll(*job_); }
  cleave_status wait_host() override { return core_->wait_host(*job_); }
  cleave_status wait_stream(void* stream) override {
    return core_->wait_stream(*job_, static_cast<cudaStream_t>(stream));
  }
  std::string error() const override {
    switch (job_->status()) {
      case CLEAVE_OK:
        return "";
      case CLEAVE_TIMED_OUT:
        return job_->timeout_text() + "; NCCL can't tell which rank is late";
      case CLEAVE_PENDING:
        return job_->is_held ? "waited for inside its own group; call group_end first" : "";
      default:
        return core_->failure().text();
    }
  }

 private:
  const std::shared_ptr<Core> core_;
  const std::shared_ptr<Job> job_;
};

}  // namespace

cleave_capabilities cuda_capabilities() {
  cleave_capabilities capabilities{};
  capabilities.struct_size = sizeof capabilities;
  capabilities.stream_ordered = 1;
  for (uint32_t& dtypes : capabilities.dtypes[CLEAVE_CUDA]) dtypes = (1u << CLEAVE_NUM_DTYPES) - 1;
  return capabilities;
}

NcclBackend::NcclBackend(const Setup& setup, std::shared_ptr<Core> core, Link& link,
                         std::string key)
    : setup_(setup), key_(std::move(key)), core_(std::move(core)), link_(link), loopback_(*core_) {
  check(cudaMalloc(&barrier_element_, sizeof(int32_t)), "cudaMalloc");
}

NcclBackend::~NcclBackend() {
  if (!core_->is_finalized()) core_->fail(CLEAVE_ABORTED, "the communicator was destroyed");
  channels_.clear();
  core_->close();
  cudaFree(barrier_element_);
}

std::unique_ptr<Operation> NcclBackend::submit(const cleave_collective& collective) {
  const DeviceGuard guard(setup_.device);
  cleave_collective call = collective;
  if (call.op == CLEAVE_BARRIER) {
    call.send = call.recv = barrier_element_;
    call.count = 1;
    call.dtype = CLEAVE_INT32;
    call.reduction = CLEAVE_MAX;
  }
  auto job = std::make_shared<Job>(call, size());
  if (call.op != CLEAVE_BARRIER) {
    job->inputs = core_->new_event();
    job->inputs.record(static_cast<cudaStream_t>(call.stream));
  }
  core_->watch(job);
  if (group_depth_ > 0) {
    job->is_held = true;
    held_.push_back(job);
  } else {
    start({job});
  }
  return std::make_unique<NcclOperation>(core_, std::move(job));
}

void NcclBackend::group_end() {
  if (group_depth_ == 0) throw RuntimeError("group_end without a group_begin");
  if (--group_depth_ > 0) return;
  const DeviceGuard guard(setup_.device);
  const auto jobs = std::exchange(held_, {});
  for (const auto& job : jobs) job->is_held = false;
  start(jobs);
}

void NcclBackend::start(const std::vector<std::shared_ptr<Job>>& jobs) {
  std::vector<Task> tasks;
  for (const auto& job : jobs) {
    const cleave_collective& call = job->call();
    const bool is_transfer = call.op == CLEAVE_SEND || call.op == CLEAVE_RECV;
    if (is_transfer && call.peer == rank())
      loopback_.accept(job);
    else if (!is_transfer)
      tasks.push_back({job, &link_});
    else if (Link* link = channel(call).accept(job))
      tasks.push_back({job, link});
  }
  if (!tasks.empty()) core_->enqueue(tasks);
}

Channel& NcclBackend::channel(const cleave_collective& transfer) {
  const bool sends = transfer.op == CLEAVE_SEND;
  auto& channel = channels_[{transfer.peer, sends}];
  if (!channel) {
    const int from = sends ? rank() : transfer.peer, to = sends ? transfer.peer : rank();
    channel = std::make_unique<Channel>(*core_, setup_.bootstrap,
                                        message(key_, "/from ", from, " to ", to), sends);
  }
  return *channel;
}

std::unique_ptr<Backend> NcclBackend::split(int color, int key) {
  const DeviceGuard guard(setup_.device);
  core_->drain(Core::Which::collectives);
  auto child = std::make_shared<Core>(setup_.device);
  Link& link = child->add_link();
  ncclConfig_t config = non_blocking();
  try {
    child->open(
        link,
        [&](ncclComm_t* comm) {
          return ncclCommSplit(link_.comm, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, comm,
                               &config);
        },
        core_->time_limit(kSplitTimeoutMs, "split"), "ncclCommSplit", core_.get());
  } catch (...) {
    failed_splits_.push_back(child);
    throw;
  }
  const std::string child_key = message(key_, "/", num_splits_++, ".", color);
  if (color < 0) return nullptr;
  child->read_rank(link);
  return std::make_unique<NcclBackend>(setup_, std::move(child), link, child_key);
}

void* NcclBackend::allocate(uint64_t bytes, cleave_device device) {
  if (device != CLEAVE_CUDA) throw RuntimeError("NCCL moves device memory only; allocate on cuda");
  const DeviceGuard guard(setup_.device);
  void* memory = nullptr;
  check(cudaMalloc(&memory, std::max<uint64_t>(bytes, 1)), "cudaMalloc");
  return memory;
}

void NcclBackend::deallocate(void* memory, uint64_t, cleave_device) {
  const DeviceGuard guard(setup_.device);
  check(cudaFree(memory), "cudaFree");
}

void NcclBackend::abort() noexcept {
  core_->fail(CLEAVE_ABORTED, "the communicator was aborted");
}

}  // namespace cleave::nccl
