#include "task.h"

#include <utility>

#include "cleave/error.h"

namespace cleave::mpi {
namespace {

// So many that the link stays full while one ends and the next one begins.
constexpr int kMaxHeavyRunning = 4;

}  // namespace

Task::Task(std::shared_ptr<Channel> channel, Stages stages, int64_t timeout_ms)
    : channel_(std::move(channel)),
      stages_(std::move(stages)),
      timeout_ms_(timeout_ms),
      deadline_(std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms)) {}

Task::Task(std::shared_ptr<Channel> channel, std::function<Stages()> make, int64_t timeout_ms)
    : Task(std::move(channel), Stages(), timeout_ms) {
  make_ = std::move(make);
}

bool Task::pass() {
  if (status() != CLEAVE_PENDING) return false;
  moved_ = false;
  try {
    if (channel_->aborted.load(std::memory_order_acquire)) {
      fail(CLEAVE_ABORTED, "the communicator was aborted");
      return true;
    }
    step();
    if (started_ && stage_ == stages_.size()) {
      end(CLEAVE_OK);
    } else if (timeout_ms_ > 0 && std::chrono::steady_clock::now() >= deadline_) {
      fail(CLEAVE_TIMED_OUT, message("not done after ", timeout_ms_, " ms, waits for ", missing()));
    }
  } catch (const std::exception& error) {
    fail(CLEAVE_FAILED, error.what());
  }
  return moved_ || status() != CLEAVE_PENDING;
}

// A part of the ranks numbers them anew; who looks for the culprit needs the launcher's number.
std::string Task::missing() const {
  if (!started_) return "earlier operations";
  std::string text;
  for (const int rank : stages_[stage_]->waits_for()) {
    text += message(text.empty() ? "rank " : ", ", rank);
    const int of_all = channel_->world_ranks[static_cast<size_t>(rank)];
    if (of_all != rank) text += message(" (rank ", of_all, " of all)");
  }
  return text.empty() ? "the GPU" : text + "; look at what that rank does instead";
}

void Task::step() {
  if (!started_) {
    if (make_) {
      if (channel_->heavy_running >= kMaxHeavyRunning) return;
      stages_ = make_();
      ++channel_->heavy_running;
    }
    started_ = true;
  }
  while (stage_ < stages_.size()) {
    moved_ |= stages_[stage_]->advance();
    if (!stages_[stage_]->finished()) return;
    ++stage_;
  }
}

void Task::end(cleave_status status) {
  if (started_ && make_) --channel_->heavy_running;
  if (status == CLEAVE_OK) stages_.clear();  // scratch goes back to the pool
  status_.store(status, std::memory_order_release);
}

void Task::fail(cleave_status status, std::string error) {
  error_ = std::move(error);
  for (const auto& machine : stages_) machine->cancel();
  end(status);
}

bool Task::drained() noexcept {
  for (const auto& machine : stages_)
    if (!machine->drained()) return false;
  stages_.clear();  // here, under the lock: scratch goes back to the pool
  return true;
}

}  // namespace cleave::mpi
