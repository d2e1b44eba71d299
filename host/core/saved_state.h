// What a rank has of the state that checkpoints hold: weights, moments, and where they come from.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "core/initialize.h"
#include "core/optimizer.h"

namespace cleave {

/// As checkpoints name it: "exp_avg.model.norm.weight".
std::string moment_name(const std::string& state, const Parameter& parameter);

/// A range of one of this rank's tensors, which it saves.
struct SavedPart {
  std::string name;
  Slice slice;        ///< not empty
  at::Tensor values;  ///< flat; a view of the tensor, which goes on changing
};

/// Weights and moments that `rank` saves.
std::vector<SavedPart> saved_parts(const std::vector<Parameter*>& parameters,
                                   const Optimizer& optimizer, const Mesh& mesh, int rank);
/// Their bytes, before anything is allocated.
int64_t saved_bytes(const std::vector<Parameter*>& parameters, const Mesh& mesh, int rank);

/// Names and shapes of all tensors of a checkpoint of this model, without slices.
std::vector<StoredTensor> stored_tensors(const std::vector<Parameter*>& parameters);

int64_t bytes_of(const std::vector<StoredTensor>& tensors);

/// Initial weights out of a checkpoint; `checkpoint` outlives it.
WeightSource checkpoint_weights(const CheckpointReader& checkpoint);
/// Fills this rank's moments and counts the updates; one slice is in memory beside them.
void load_optimizer(Optimizer& optimizer, const std::vector<Parameter*>& parameters,
                    const CheckpointReader& checkpoint);

}  // namespace cleave
