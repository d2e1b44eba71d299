#include "comm_core.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "cleave/backend.h"
#include "cleave/error.h"

namespace cleave {

c10::Stream current_stream(const at::Tensor& tensor) {
  return c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device());
}

namespace {

const char* status_text(int32_t status) {
  switch (status) {
    case CLEAVE_TIMED_OUT:
      return "timed out";
    case CLEAVE_ABORTED:
      return "aborted";
    case CLEAVE_UNSUPPORTED:
      return "not supported";
    case CLEAVE_INVALID:
      return "invalid arguments";
    default:
      return "failed";
  }
}

class BlockedTime {
 public:
  explicit BlockedTime(CommStats* stats) : stats_(stats), start_(Clock::now()) {}
  ~BlockedTime() {
    stats_->exposed_ms += std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  }

 private:
  CommStats* stats_;
  Clock::time_point start_;
};

}  // namespace

detail::CommCore::CommCore(cleave_communicator* owned, std::string group_name,
                           CommStats* group_stats, int64_t group_timeout_ms)
    : communicator(owned),
      api(owned->api),
      name(std::move(group_name)),
      stats(group_stats),
      timeout_ms(group_timeout_ms),
      rank(api->rank(owned)),
      size(api->size(owned)) {
  capabilities.struct_size = sizeof capabilities;
  api->capabilities(communicator, &capabilities);
}

detail::CommCore::~CommCore() {
  // Unfinished works mean that the run ended badly: finalize() would have waited for them.
  for (auto& state : detached)
    if (api->work_poll(state->work) == CLEAVE_PENDING) api->abort(communicator);
  detached.clear();
  api->destroy(communicator);
}

std::string detail::CommCore::where() const {
  return message("communicator ", name, ", rank ", rank, " of ", size);
}

void detail::CommCore::detach(std::unique_ptr<Work::State> state) noexcept {
  if (!state->failure.empty()) {
    unsafe_to_free.push_back(std::move(state->send));
    unsafe_to_free.push_back(std::move(state->recv));
  } else if (!state->done) {
    state->core.reset();
    detached.push_back(std::move(state));
  }
}

void detail::CommCore::reap() {
  for (size_t i = 0; i < detached.size();) {
    std::unique_ptr<Work::State>& state = detached[i];
    const int32_t status = api->work_poll(state->work);
    if (status == CLEAVE_PENDING) {
      ++i;
      continue;
    }
    std::swap(state, detached.back());
    const auto settled = std::move(detached.back());
    detached.pop_back();
    if (status != CLEAVE_OK) {
      unsafe_to_free.push_back(settled->send);
      unsafe_to_free.push_back(settled->recv);
    }
    settled->settle(status);
  }
}

void detail::CommCore::wait_for_detached() {
  for (auto& state : detached) api->work_wait_host(state->work);
  reap();
}

Work::State::State(std::shared_ptr<detail::CommCore> owner, const cleave_collective& call,
                   at::Tensor send_tensor, at::Tensor recv_tensor)
    : core(std::move(owner)),
      borrowed_core(core.get()),
      send(std::move(send_tensor)),
      recv(std::move(recv_tensor)),
      op(call.op),
      sequence(++core->sequence),
      bytes(static_cast<int64_t>(
          std::max(send.defined() ? send.nbytes() : 0, recv.defined() ? recv.nbytes() : 0))),
      submitted(Clock::now()) {
  ++core->stats->open_works;
}

Work::State::~State() {
  --borrowed_core->stats->open_works;
  if (work) borrowed_core->api->work_release(work);
}

bool Work::State::poll() {
  if (!done) settle(borrowed_core->api->work_poll(work));
  return done;
}

void Work::State::settle(int32_t status) {
  if (status == CLEAVE_PENDING) return;
  detail::CommCore& group = *borrowed_core;
  if (status != CLEAVE_OK) {
    failure = message(group.where(), ": ", op_name(op), " number ", sequence, " of ", bytes,
                      " bytes: ", status_text(status), ": ", group.api->error(group.communicator));
    throw RuntimeError(failure);
  }
  done = true;
  if (group.trace) group.trace(group.name + "." + op_name(op), bytes, submitted, Clock::now());
}

void Work::State::wait(bool on_host) {
  if (!failure.empty()) throw RuntimeError(failure);
  if (done) return;
  detail::CommCore& group = *borrowed_core;
  const BlockedTime blocked(group.stats);
  const at::Tensor& tensor = recv.defined() ? recv : send;
  if (on_host || !tensor.defined() || tensor.device().is_cpu() ||
      !group.capabilities.stream_ordered) {
    settle(group.api->work_wait_host(work));
    return;
  }
  // Ordered on the device, not finished: the tensors are held until a poll says so.
  const int32_t status = group.api->work_wait_stream(work, current_stream(tensor).native_handle());
  if (status != CLEAVE_OK) settle(status);
}

Work::Work() = default;
Work::Work(Work&&) noexcept = default;
Work::Work(std::unique_ptr<State> state) : state_(std::move(state)) {}

Work& Work::operator=(Work&& other) noexcept {
  Work previous(std::move(*this));  // detaches what this held
  state_ = std::move(other.state_);
  return *this;
}

Work::~Work() {
  if (!state_) return;
  const std::shared_ptr<detail::CommCore> core = state_->core;
  core->detach(std::move(state_));
}

bool Work::done() {
  if (!state_->failure.empty()) throw RuntimeError(state_->failure);
  return state_->poll();
}

void Work::wait() {
  state_->wait(false);
}
void Work::wait_host() {
  state_->wait(true);
}

}  // namespace cleave
