// Two runs of the same config in different layouts are the same training.
#pragma once

#include <string>
#include <vector>

#include "support/tiny_run.h"

namespace cleave::test {

/// A [strategy.<name>] table; options are TOML values by key.
PluginTable strategy(const std::string& name,
                     const std::vector<std::pair<std::string, std::string>>& options = {});

/// DESIGN 7.5 for every rank of `ranks` against `one`: initial weights bitwise, loss, gradients,
/// norm and lr of every step, weights at the end.
void expect_same_training(const std::vector<RunResult>& ranks, const RunResult& one);

/// Losses, norms, first gradients and final weights, bit for bit.
void expect_bitwise_equal(const RunResult& a, const RunResult& b);

}  // namespace cleave::test
