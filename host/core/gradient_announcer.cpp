#include "core/gradient_announcer.h"

#include <algorithm>

namespace cleave {

GradientAnnouncer::GradientAnnouncer(const std::vector<Parameter*>& backward_order,
                                     size_t num_units, int64_t micro_batches,
                                     GradientReducer* reducer, bool is_early)
    : reducer_(reducer),
      micro_batches_(micro_batches),
      is_early_(is_early),
      ready_after_(num_units),
      done_(num_units) {
  size_t parameters = 0;
  for (Parameter* parameter : backward_order) {
    ready_after_[static_cast<size_t>(parameter->units.front())].push_back(parameter);
    parameters = std::max(parameters, static_cast<size_t>(parameter->index) + 1);
  }
  is_complete_.resize(parameters);
}

void GradientAnnouncer::begin_step() {
  done_.assign(done_.size(), 0);
}

void GradientAnnouncer::before(const UnitInfo& unit) {
  if (!reducer_) return;
  reducer_->provide_gradients(unit);
  unit_ = unit.index;
  num_announced_ = 0;
  for (Parameter* parameter : ready_after_[static_cast<size_t>(unit_)]) {
    is_complete_[static_cast<size_t>(parameter->index)] = false;
    if (is_early_) parameter->listener = this;
  }
}

// Operations complete their gradients in an order of their own; one that is early waits for those
// before it.
void GradientAnnouncer::complete(Parameter& parameter) {
  parameter.listener = nullptr;
  is_complete_[static_cast<size_t>(parameter.index)] = true;
  const auto& ready = ready_after_[static_cast<size_t>(unit_)];
  while (num_announced_ < ready.size() &&
         is_complete_[static_cast<size_t>(ready[num_announced_]->index)])
    announce_next();
}

void GradientAnnouncer::announce_next() {
  const auto unit = static_cast<size_t>(unit_);
  Parameter& parameter = *ready_after_[unit][num_announced_++];
  reducer_->gradient_ready(parameter, done_[unit] + 1 == micro_batches_);
}

void GradientAnnouncer::after(int unit) {
  const auto& ready = ready_after_[static_cast<size_t>(unit)];
  for (Parameter* parameter : ready) {
    parameter->listener = nullptr;
    // a complete one may be with the reducer by now
    if (!is_complete_[static_cast<size_t>(parameter->index)]) settle(*parameter);
  }
  while (reducer_ && num_announced_ < ready.size()) announce_next();
  ++done_[static_cast<size_t>(unit)];
}

}  // namespace cleave
