#include "mpi_communicator.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "cleave/error.h"

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
  return algorithm == Algorithm::two_level || (reduces && call.bytes >= kLargeBytes);
}

}  // namespace

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
    topology_ = std::make_shared<Topology>(find_topology(*channel_, runtime_->neighbours()));
  });
  stages_ = std::make_shared<StageMaker>(channel_, runtime_->scratch(), topology_);
  description_ = describe_this();
  if (root_) runtime_->add_root();
}

Shape MpiBackend::shape() const {
  return {size(),
          topology_->machines,
          topology_->ranks_per_machine,
          topology_->machines == 1 && topology_->node,
          topology_->has_levels(),
          topology_->is_consecutive};
}

std::string MpiBackend::describe_this() const {
  std::string text = runtime_->description();
  if (topology_->node) text += ", shared memory";
  if (topology_->machines > 1)
    text += message(", network ", policy_.link.alpha_us, " us + ", policy_.link.gb_s, " GB/s (",
                    policy_.link.source, ")");
  if (policy_.forced != Algorithm::automatic)
    text += message(", algorithm ", algorithm_name(policy_.forced), " where it can");
  if (policy_.deterministic) text += ", sums in rank order";
  return text;
}

const char* MpiBackend::algorithm(cleave_op op, cleave_dtype dtype, int64_t bytes,
                                  cleave_device) const {
  return algorithm_name(choose_algorithm(op, dtype, CLEAVE_SUM, bytes, shape(), policy_));
}

std::unique_ptr<Operation> MpiBackend::submit(const cleave_collective& collective) {
  const Call call(collective, size());
  std::shared_ptr<Task> task = make_task(collective, call);
  runtime_->submit(task, call.bytes >= kLargeBytes);
  return std::make_unique<MpiOperation>(runtime_, std::move(task));
}

std::shared_ptr<Task> MpiBackend::make_task(const cleave_collective& collective, const Call& call) {
  const Algorithm algorithm = choose_algorithm(call.op, call.dtype, call.reduction, call.bytes,
                                               shape(), policy_, call.is_uneven);
  const int tag =
      is_transfer(call.op) ? channel_->transfer_tag(call.tag) : channel_->next_collective_tag();
  if (!is_heavy(call, algorithm, stages_->is_small(call)))
    return std::make_shared<Task>(channel_, stages_->make(call, algorithm, tag),
                                  collective.timeout_ms);
  return std::make_shared<Task>(
      channel_,
      [stages = stages_, call, algorithm, tag] { return stages->make(call, algorithm, tag); },
      collective.timeout_ms);
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

void* MpiBackend::allocate(uint64_t bytes, cleave_device) {
  if (Arena* arena = runtime_->neighbours().arena())
    if (void* memory = arena->allocate(bytes)) return memory;
  const uint64_t rounded = (std::max<uint64_t>(bytes, 1) + kAlignment - 1) & ~(kAlignment - 1);
  return std::aligned_alloc(kAlignment, rounded);
}

void MpiBackend::deallocate(void* memory, uint64_t, cleave_device) {
  Arena* arena = runtime_->neighbours().arena();
  if (!arena || !arena->deallocate(memory)) std::free(memory);
}

void MpiBackend::finalize() {
  runtime_->drain(*channel_);
  if (root_) runtime_->remove_root();
}

}  // namespace cleave::mpi
