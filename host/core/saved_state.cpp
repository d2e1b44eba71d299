#include "core/saved_state.h"

#include <ATen/ATen.h>

namespace cleave {

std::string moment_name(const std::string& state, const Parameter& parameter) {
  return state + "." + parameter.name;
}

std::vector<SavedPart> saved_parts(const std::vector<Parameter*>& parameters,
                                   const Optimizer& optimizer, const Mesh& mesh, int rank) {
  std::vector<SavedPart> weights, moments;
  for (const Parameter* parameter : parameters) {
    const Slice saved = saved_slice(parameter->state_placement, mesh, rank);
    if (saved.num_elements() == 0) continue;
    const int64_t first = saved.begin - slice_of(parameter->state_placement).begin;
    const auto part = [&](const at::Tensor& tensor) {
      return tensor.view({-1}).narrow(0, first, saved.num_elements());
    };
    weights.push_back({parameter->name, saved, part(parameter->master)});
    for (const auto& [name, tensor] : optimizer.states(*parameter))
      moments.push_back({moment_name(name, *parameter), saved, part(tensor)});
  }
  weights.insert(weights.end(), moments.begin(), moments.end());
  return weights;
}

int64_t saved_bytes(const std::vector<Parameter*>& parameters, const Mesh& mesh, int rank) {
  int64_t elements = 0;
  for (const Parameter* parameter : parameters)
    elements += saved_slice(parameter->state_placement, mesh, rank).num_elements();
  return elements * static_cast<int64_t>((1 + adamw_state_names().size()) * sizeof(float));
}

std::vector<StoredTensor> stored_tensors(const std::vector<Parameter*>& parameters) {
  std::vector<StoredTensor> tensors;
  for (const Parameter* parameter : parameters)
    tensors.push_back({parameter->name, parameter->shape, {}});
  for (const std::string& state : adamw_state_names())
    for (const Parameter* parameter : parameters)
      tensors.push_back({moment_name(state, *parameter), parameter->shape, {}});
  return tensors;
}

int64_t bytes_of(const std::vector<StoredTensor>& tensors) {
  int64_t elements = 0;
  for (const StoredTensor& tensor : tensors) elements += Box::whole(tensor.shape).num_elements();
  return elements * static_cast<int64_t>(sizeof(float));
}

WeightSource checkpoint_weights(const CheckpointReader& checkpoint) {
  return [&checkpoint](const Parameter& parameter, Init, const Box& box, at::Tensor& out) {
    checkpoint.read(parameter.name, {box, 0, box.num_elements()}, out.data_ptr<float>());
  };
}

void load_optimizer(Optimizer& optimizer, const std::vector<Parameter*>& parameters,
                    const CheckpointReader& checkpoint) {
  optimizer.set_num_updates(checkpoint.manifest().step);
  for (const Parameter* parameter : parameters) {
    if (parameter->master.numel() == 0) continue;
    const Slice slice = slice_of(parameter->state_placement);
    for (const auto& [name, tensor] : optimizer.states(*parameter)) {
      at::Tensor values = at::empty({slice.num_elements()}, at::kFloat);
      checkpoint.read(moment_name(name, *parameter), slice, values.data_ptr<float>());
      tensor.view({-1}).copy_(values);
    }
  }
}

}  // namespace cleave
