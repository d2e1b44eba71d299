#include "core/batch.h"

#include <ATen/ATen.h>

namespace cleave {

Batch read_batch(const Dataset& dataset, const RunConfig& config, const Mesh& mesh, int rank,
                 int64_t step, at::Device device) {
  const BatchSlice slice = batch_slice(step, config.train.global_batch_size,
                                       mesh.coordinate(rank, "data"), mesh.size("data"));
  const int64_t B = config.train.micro_batch_size, T = config.data.sequence_length;
  const auto i64 = at::TensorOptions().dtype(at::kLong);
  at::Tensor tokens = at::empty({slice.count / B, B, T}, i64);
  at::Tensor targets = at::empty_like(tokens);
  int64_t* token = tokens.data_ptr<int64_t>();
  int64_t* target = targets.data_ptr<int64_t>();
  for (int64_t i = 0; i < slice.count; ++i, token += T, target += T)
    dataset.read(slice.first + i, {token, static_cast<size_t>(T)},
                 {target, static_cast<size_t>(T)});
  const at::Tensor valid = config.data.ignore_token ? targets.ne(*config.data.ignore_token).sum()
                                                    : at::scalar_tensor(targets.numel(), i64);
  return {tokens.to(device), targets.to(device), valid.to(device)};
}

}  // namespace cleave
