#include "mpi_communicator.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>
#include <vector>

#include "cleave/error.h"
#include "network_bytes.h"
#include "packing.h"
#include "staged.h"

namespace cleave::mpi {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr int kGuaranteedMaxTag = 32767;  // by the MPI standard

class MpiOperation final : public Operation {
 public:
  MpiOperation(std::shared_ptr<Runtime> runtime, std::shared_ptr<Task> task)
      : runtime_(std::move(runtime)), task_(std::move(task)) {}
  cleave_status poll() override { return runtime_->poll(*task_); }
  cleave_status wait_host() override { return runtime_->wait(*task_); }
  cleave_status wait_stream(void*) override { return wait_host(); }
  std::string error() const override { return task_->error(); }

 private:
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Task> task_;
};

bool is_transfer(cleave_op op) {
  return op == CLEAVE_SEND || op == CLEAVE_RECV;
}

/// Its stages take much scratch memory, or lanes that are given out in the order of the starts.
bool is_heavy(const Call& call, Algorithm algorithm, bool is_small) {
  if (algorithm == Algorithm::shared) return !is_small;
  const bool reduces = call.op == CLEAVE_ALL_REDUCE || call.op == CLEAVE_REDUCE_SCATTER;
  return has_levels(algorithm) || (reduces && call.bytes >= kLargeBytes);
}

}  // namespace

cleave_capabilities mpi_capabilities() {
  cleave_capabilities capabilities = cpu_capabilities();
  if (!Device::is_present()) return capabilities;
  capabilities.stream_ordered = 1;
  std::copy(std::begin(capabilities.dtypes[CLEAVE_CPU]), std::end(capabilities.dtypes[CLEAVE_CPU]),
            std::begin(capabilities.dtypes[CLEAVE_CUDA]));
  return capabilities;
}

MpiBackend::MpiBackend(std::shared_ptr<Runtime> runtime, MPI_Comm comm, Settings settings,
                       Policy policy, bool root)
    : runtime_(std::move(runtime)),
      channel_(std::make_shared<Channel>()),
      policy_(std::move(policy)),
      root_(root) {
  channel_->comm = comm;
  channel_->settings = settings;
  runtime_->locked([&] {
    check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm, &channel_->rank), "MPI_Comm_rank");
    check(MPI_Comm_size(comm, &channel_->size), "MPI_Comm_size");
    void* max_tag = nullptr;
    int found = 0;
    check(MPI_Comm_get_attr(comm, MPI_TAG_UB, &max_tag, &found), "MPI_Comm_get_attr");
    channel_->max_tag = found ? *static_cast<int*>(max_tag) : kGuaranteedMaxTag;
    channel_->world_ranks = find_world_ranks(comm, channel_->size);
    topology_ = std::make_shared<Topology>(find_topology(*channel_, runtime_->neighbours()));
    channel_->scratch = &runtime_->scratch();
    const std::vector<int>& machine_of = topology_->machine_of;
    for (const int machine : machine_of)
      channel_->packs_to.push_back(settings.packs &&
                                   machine != machine_of[static_cast<size_t>(channel_->rank)]);
  });
  stages_ = std::make_shared<StageMaker>(channel_, topology_);
  description_ = describe_this();
  if (root_) runtime_->add_root();
}

cleave_capabilities MpiBackend::capabilities() const {
  return mpi_capabilities();
}

/// Staged operations don't use shared memory.
Shape MpiBackend::shape(cleave_device device) const {
  const bool is_host = device == CLEAVE_CPU;
  return {size(),
          topology_->machines,
          topology_->ranks_per_machine,
          is_host && topology_->machines == 1 && topology_->node,
          is_host && topology_->has_levels(),
          topology_->is_consecutive};
}

std::string MpiBackend::describe_this() const {
  std::string text = runtime_->description();
  if (topology_->node) text += ", shared memory";
  if (runtime_->device())
    text +=
        runtime_->takes_gpu_memory() ? ", GPU memory staged, sent as it is" : ", GPU memory staged";
  if (topology_->machines > 1)
    text += message(", network ", policy_.link.alpha_us, " us + ", policy_.link.gb_s, " GB/s (",
                    policy_.link.source, ")");
  if (channel_->settings.packs && topology_->machines > 1) text += ", floats packed";
  if (policy_.forced != Algorithm::automatic)
    text += message(", algorithm ", algorithm_name(policy_.forced), " where it can");
  if (policy_.deterministic) text += ", sums in one order";
  return text;
}

const char* MpiBackend::algorithm(cleave_op op, cleave_dtype dtype, int64_t bytes,
                                  cleave_device device) const {
  return algorithm_name(choose_algorithm(op, dtype, CLEAVE_SUM, bytes, shape(device), policy_));
}

double MpiBackend::network_bytes(cleave_op op, cleave_dtype dtype, int64_t bytes,
                                 cleave_device device) const {
  const Algorithm algorithm =
      choose_algorithm(op, dtype, CLEAVE_SUM, bytes, shape(device), policy_);
  const double plain = mpi::network_bytes(op, algorithm, bytes, topology_->machine_of);
  const bool is_packed =
      channel_->settings.packs && (can_pack(dtype) || algorithm == Algorithm::rounded_levels) &&
      (op == CLEAVE_ALL_REDUCE || op == CLEAVE_REDUCE_SCATTER || op == CLEAVE_ALL_GATHER);
  return is_packed && plain > 0 ? -1 : plain;  // packed: as the values are
}

std::unique_ptr<Operation> MpiBackend::submit(const cleave_collective& collective) {
  const Call call(collective, size());
  std::shared_ptr<Task> task = collective.device == CLEAVE_CPU ? make_task(collective, call)
                                                               : make_staged_task(collective, call);
  runtime_->submit(task, call.bytes >= kLargeBytes);
  return std::make_unique<MpiOperation>(runtime_, std::move(task));
}

Algorithm MpiBackend::choose(const Call& call, cleave_device device) const {
  return choose_algorithm(call.op, call.dtype, call.reduction, call.bytes, shape(device), policy_,
                          call.is_uneven);
}

int MpiBackend::next_tag(const Call& call) {
  return is_transfer(call.op) ? channel_->transfer_tag(call.tag) : channel_->next_collective_tag();
}

std::shared_ptr<Task> MpiBackend::make_task(const cleave_collective& collective, const Call& call) {
  const Algorithm algorithm = choose(call, CLEAVE_CPU);
  const int tag = next_tag(call);
  if (!is_heavy(call, algorithm, stages_->is_small(call)))
    return std::make_shared<Task>(channel_, stages_->make(call, algorithm, tag),
                                  collective.timeout_ms);
  return std::make_shared<Task>(
      channel_,
      [stages = stages_, call, algorithm, tag] { return stages->make(call, algorithm, tag); },
      collective.timeout_ms);
}

std::shared_ptr<Task> MpiBackend::make_staged_task(const cleave_collective& collective,
                                                   const Call& call) {
  StagedCall staged{call, 0, nullptr, choose(call, CLEAVE_CUDA), next_tag(call)};
  Device& device = *runtime_->device();
  runtime_->locked([&] {
    staged.gpu = device.current();
    device.use(staged.gpu);
    staged.ready = device.record(collective.stream);
  });
  const bool is_direct = is_transfer(call.op) && runtime_->takes_gpu_memory();
  const auto make = [stages = stages_, &device, staged, is_direct] {
    Stages machines;
    machines.push_back(std::make_unique<Staged>(stages, device, staged, is_direct));
    return machines;
  };
  // a receive that waits must not hold back the send that the other rank waits for
  if (!is_transfer(call.op)) return std::make_shared<Task>(channel_, make, collective.timeout_ms);
  return std::make_shared<Task>(channel_, make(), collective.timeout_ms);
}

std::unique_ptr<Backend> MpiBackend::split(int color, int key) {
  const int32_t choice[] = {color, key};
  std::vector<int32_t> choices(2 * static_cast<size_t>(size()));
  cleave_collective meeting{};
  meeting.struct_size = sizeof meeting;
  meeting.op = CLEAVE_ALL_GATHER;
  meeting.dtype = CLEAVE_INT32;
  meeting.send = choice;
  meeting.recv = choices.data();
  meeting.count = 2;
  const auto operation = submit(meeting);
  if (operation->wait_host() != CLEAVE_OK)
    throw RuntimeError(message("split: ", operation->error()));

  MPI_Comm child = MPI_COMM_NULL;
  runtime_->locked([&] {
    check(MPI_Comm_split(channel_->comm, color < 0 ? MPI_UNDEFINED : color, key, &child),
          "MPI_Comm_split");
  });
  if (child == MPI_COMM_NULL) return nullptr;
  return std::make_unique<MpiBackend>(runtime_, child, channel_->settings, policy_, false);
}

void* MpiBackend::allocate(uint64_t bytes, cleave_device device) {
  if (device == CLEAVE_CUDA) return runtime_->device()->allocate(std::max<uint64_t>(bytes, 1));
  if (Arena* arena = runtime_->neighbours().arena())
    if (void* memory = arena->allocate(bytes)) return memory;
  const uint64_t rounded = (std::max<uint64_t>(bytes, 1) + kAlignment - 1) & ~(kAlignment - 1);
  return std::aligned_alloc(kAlignment, rounded);
}

void MpiBackend::deallocate(void* memory, uint64_t, cleave_device device) {
  if (device == CLEAVE_CUDA) return runtime_->device()->deallocate(memory);
  Arena* arena = runtime_->neighbours().arena();
  if (!arena || !arena->deallocate(memory)) std::free(memory);
}

void MpiBackend::finalize() {
  runtime_->drain(*channel_);
  if (root_) runtime_->remove_root();
}

}  // namespace cleave::mpi
