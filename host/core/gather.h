// Bringing the parts of a tensor together, for what needs it whole: export, verify.
#pragma once

#include <ATen/core/Tensor.h>

#include "cleave/comm.h"
#include "cleave/parameter.h"

namespace cleave {

/// Whether nothing has to be brought together.
bool is_whole_everywhere(const Placement& placement, const Mesh& mesh);

/// The whole float32 tensor of `parameter`, of which this rank holds `part` by `placement`; the
/// same bits on every rank. Collective over `world`; one tensor of the global shape is alive.
at::Tensor gather_whole(const Parameter& parameter, const Placement& placement,
                        const at::Tensor& part, const Mesh& mesh, Comm& world);

}  // namespace cleave
