// From [mesh] and the number of ranks to who does what: the mesh and the batch equation.
#pragma once

#include <string>

#include "cleave/mesh.h"
#include "config/run_config.h"

namespace cleave {

/// Axes from outermost to innermost: pipeline, data, axes that plugins add (by name), tensor. data
/// is inferred when it is not written. ConfigError with the equation when the product is not
/// `world_size`.
Mesh make_mesh(const RunConfig& config, int world_size);

/// What [mesh] says without knowing the ranks: the product of the written axes.
int written_mesh_size(const RunConfig& config);

/// global_batch_size / (micro_batch_size x data); ConfigError when it does not divide.
int64_t num_micro_batches(const RunConfig& config, const Mesh& mesh);

}  // namespace cleave
