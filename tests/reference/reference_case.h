// The committed cases (cases/, made by make_cases.py) and the layouts that must reproduce them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/captured_run.h"
#include "core/verify.h"
#include "support/temporary_folder.h"

namespace cleave::test {

struct ReferenceCase {
  std::string name;
  std::filesystem::path folder;
  /// In float64; of the records only loss, grad_norm, lr and valid_tokens are set. The initial
  /// weights are float32, as in model.safetensors.
  CapturedRun expected;
};

std::vector<std::string> case_names();
ReferenceCase load_case(const std::string& name);

/// A row of layouts.json.
struct Layout {
  std::string name;
  int ranks;
  std::string toml;  ///< appended to a case's run.toml: strategies, mesh
  std::vector<int64_t> micro_batch_sizes;
  std::vector<std::string> cases = {};  ///< whose sizes divide so; empty: all
};

std::vector<Layout> layouts();

/// The case's run.toml in this layout over the backend `local`, read as the program reads it.
RunConfig config_of(const ReferenceCase& reference, const Layout& layout, int64_t micro_batch_size,
                    const TemporaryFolder& folder);

/// The model's parameters in table order.
std::vector<std::string> parameter_order(const RunConfig& config);

struct Judgement {
  std::vector<Deviation> deviations;  ///< loss, norm, gradients, weights
  /// Empty, or what differs first of each kind, for tensors with both norms.
  std::string failure;
};

Judgement judge(const CapturedRun& run, const ReferenceCase& reference,
                const std::vector<std::string>& parameter_order);

}  // namespace cleave::test
