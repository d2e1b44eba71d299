// A small decoder on odd sizes, trained by N ranks as threads; what a test compares afterwards.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "core/captured_run.h"
#include "support/temporary_folder.h"

namespace cleave::test {

/// Vocabulary 97, hidden 32, 5 layers, 4 heads, 2 kv heads, sequence 16, weights of std 0.2, AdamW
/// with epsilon 1e-2, a clip that bites; text with an uneven share of ignored tokens in `folder`.
RunConfig tiny_config(const TemporaryFolder& folder);

using RunResult = CapturedRun;

/// Runs config.train.steps steps on `ranks` threads over the local backend; rank r's result is [r].
/// Throws what a rank threw.
std::vector<RunResult> run_ranks(RunConfig config, int ranks);

/// ||a - b|| / ||b||, 0 for equal tensors.
double relative_difference(const at::Tensor& a, const at::Tensor& b);
bool bitwise_equal(const at::Tensor& a, const at::Tensor& b);

}  // namespace cleave::test
