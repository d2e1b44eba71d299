#include "core/memory_plan.h"

#include <algorithm>

#include "cleave/error.h"
#include "core/activation_forecast.h"

namespace cleave {

namespace {

constexpr int64_t kFloatBytes = sizeof(float);

}  // namespace

std::vector<MemoryItem> model_states(const std::vector<Parameter*>& parameters) {
  int64_t values = 0, masters = 0, gradients = 0, moments = 0;
  for (const Parameter* parameter : parameters) {
    const int64_t states = parameter->state_placement.num_elements();
    const bool is_float32 = parameter->dtype == at::kFloat;
    // a value that is kept in pieces is its master's memory
    if (is_float32 || !parameter->value_placement.piece)
      values += parameter->value_placement.num_elements() *
                static_cast<int64_t>(c10::elementSize(parameter->dtype));
    if (!is_float32) masters += states * kFloatBytes;
    gradients += parameter->gradient_placement.num_elements() * kFloatBytes;
    moments += states * 2 * kFloatBytes;
  }
  return {{"values", values, MemoryCategory::parameters},
          {"float32 weights", masters, MemoryCategory::master},
          {"sums", gradients, MemoryCategory::gradients},
          {"moments", moments, MemoryCategory::optimizer}};
}

std::vector<MemoryItem> initial_memory(const std::vector<Parameter*>& parameters) {
  int64_t largest = 0;
  for (const Parameter* parameter : parameters)
    if (parameter->state_placement.piece)
      largest = std::max(largest, parameter->state_placement.num_elements() * kFloatBytes);
  return {{"a parameter's initial values", largest, MemoryCategory::other}};
}

std::vector<MemoryItem> activation_memory(const std::vector<std::unique_ptr<Unit>>& units,
                                          const MicroBatchShape& shape,
                                          std::span<const Action> actions,
                                          std::span<const Visit> visits) {
  const ActivationForecast forecast = forecast_activations(units, shape, actions);
  MemoryItem kept{"kept for backward", forecast.kept_bytes, MemoryCategory::activations};
  MemoryItem running{message("while ", forecast.peak_unit, " runs"),
                     forecast.peak_bytes - forecast.kept_bytes, MemoryCategory::activations};
  for (const Visit& visit : visits) {
    const auto found = forecast.of_units.find(visit.unit->index);
    if (found == forecast.of_units.end()) break;
    const auto& of_unit = found->second;
    running.of_visits.push_back(
        (visit.phase == Phase::forward ? of_unit.forward : of_unit.backward) - kept.bytes);
  }
  return {kept, running};
}

std::vector<MemoryItem> batch_memory(const MicroBatchShape& shape, int64_t num_micro_batches,
                                     bool ignores_tokens) {
  // both int64; a bool each, which is summed as int64
  const int64_t bytes_per_token = 16 + (ignores_tokens ? 9 : 0);
  const int64_t tokens = num_micro_batches * shape.sequences * shape.tokens;
  return {{"batch", bytes_per_token * tokens, MemoryCategory::other}};
}

}  // namespace cleave
