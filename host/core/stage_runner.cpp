#include "core/stage_runner.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

namespace cleave {

namespace {

using Clock = std::chrono::steady_clock;
using Kind = Action::Kind;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace

StageRunner::StageRunner(const Context& context, Tape& tape) : context_(context), tape_(tape) {}

Units StageRunner::units_of(int chunk) const {
  const auto is_before = [&](const auto& unit) { return unit->info.chunk < chunk; };
  const auto is_within = [&](const auto& unit) { return unit->info.chunk <= chunk; };
  const auto& units = context_.units;  // in forward order, so chunks ascend
  const auto first = std::partition_point(units.begin(), units.end(), is_before);
  const auto last = std::partition_point(first, units.end(), is_within);
  return {first, last};
}

std::optional<StageRunner::Message> StageRunner::input_of(const Action& action) const {
  const bool is_forward = action.kind == Kind::forward;
  if (action.kind == Kind::backward_weight) return std::nullopt;
  if (is_forward && action.chunk == 0) return std::nullopt;
  if (!is_forward && action.chunk == context_.num_chunks - 1) return std::nullopt;
  return Message{!is_forward, action.chunk + (is_forward ? -1 : 1), action.micro_batch};
}

int StageRunner::tag(const Message& message) const {
  return (message.micro_batch * context_.num_chunks + message.chunk) * 2 + message.is_gradient;
}

// Posts the receive, once.
void StageRunner::expect(const Action& action) {
  const auto message = input_of(action);
  if (!message || arrivals_.contains(*message)) return;
  const int from = message->chunk % context_.comm.size();
  if (from == context_.comm.rank()) return;  // passed on here
  Arrival arrival{at::empty(at::IntArrayRef(context_.activation_shape), context_.options), {}};
  arrival.work = context_.comm.recv(arrival.tensor, from, tag(*message));
  arrivals_.emplace(*message, std::move(arrival));
}

at::Tensor StageRunner::await(const Action& action) {
  const auto message = input_of(action);
  if (!message) return {};
  const auto begin = Clock::now();
  auto found = arrivals_.extract(*message);
  if (found.mapped().work.valid()) found.mapped().work.wait();
  waited_ms_ += ms_since(begin);
  return found.mapped().tensor;
}

// Sends never block: what waits is the receiver. So no order of sends and receives can hang.
void StageRunner::pass_on(const Message& message, const at::Tensor& tensor, int to_chunk) {
  const int to = to_chunk % context_.comm.size();
  if (to == context_.comm.rank())
    arrivals_.emplace(message, Arrival{tensor, {}});
  else
    sends_.push_back(context_.comm.send(tensor.contiguous(), to, tag(message)));
  std::erase_if(sends_, [](Work& send) { return send.done(); });
}

void StageRunner::run_action(const Action& action, const Step& step) {
  const MicroBatch micro_batch = step.micro_batch(action.micro_batch);
  const Units units = units_of(action.chunk);
  const at::Tensor input = await(action);
  const int last = context_.num_chunks - 1;
  switch (action.kind) {
    case Kind::forward: {
      const at::Tensor output = tape_.forward(units, micro_batch, input);
      if (action.chunk < last)
        pass_on({false, action.chunk, action.micro_batch}, output, action.chunk + 1);
      return;
    }
    case Kind::backward_weight:
      tape_.backward_weight(units, micro_batch, step.after_backward);
      return;
    case Kind::backward:
    case Kind::backward_input: {
      const at::Tensor gradient =
          action.kind == Kind::backward
              ? tape_.backward(units, micro_batch, step.after_backward, input)
              : tape_.backward_input(units, micro_batch, input);
      if (action.chunk > 0)
        pass_on({true, action.chunk, action.micro_batch}, gradient, action.chunk - 1);
      return;
    }
  }
}

StageTimes StageRunner::run(const std::vector<Action>& actions, const Step& step) {
  const auto begin = Clock::now();
  waited_ms_ = 0;
  bool is_before_backward = true;
  for (size_t i = 0; i < actions.size(); ++i) {
    expect(actions[i]);
    if (i + 1 < actions.size()) expect(actions[i + 1]);  // arrives while this one runs
    if (is_before_backward && actions[i].kind != Kind::forward) {
      step.before_backward();
      is_before_backward = false;
    }
    run_action(actions[i], step);
  }
  const double whole_ms = ms_since(begin);
  for (Work& send : sends_) send.wait();
  sends_.clear();
  return {whole_ms - waited_ms_, whole_ms};
}

}  // namespace cleave
