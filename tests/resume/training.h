// Whole runs of the program's train(), by ranks that are threads, and what they leave behind.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "layouts.h"
#include "support/temporary_folder.h"

namespace cleave::test {

/// Sanitizers look at the code, which differs with the kind of case, not at digits.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kIsThorough = false;
#else
inline constexpr bool kIsThorough = true;
#endif

/// A line of metrics.jsonl.
struct StepNumbers {
  int64_t step;
  double loss;
  double grad_norm;
  std::vector<double> peak_memory_mib;  ///< by rank
};

struct Training {
  std::vector<StepNumbers> steps;  ///< all of metrics.jsonl, earlier runs' too
  std::string console;
  std::string error;                     ///< of the rank that failed first; "": none did
  std::vector<std::string> rank_errors;  ///< by rank
  bool is_config_error = false;          ///< all of them are
};

/// tiny_config with 37 samples, so that epochs end in steps 4, 7 and 10; 6 micro-batches a step
/// where one rank reads all of it; a learning rate that moves in each of 12 steps. What a run
/// writes is under `folder`/`name`.
RunConfig resume_config(const TemporaryFolder& folder, const std::string& name = "run");

/// Runs train() until config.train.steps.
Training train(const RunConfig& config, int ranks);
Training train(const RunConfig& config, const Layout& layout);
/// The same with another number of steps, which must go well.
Training train_until(int64_t step, RunConfig config, const Layout& layout);

std::filesystem::path checkpoint_of(const RunConfig& config, int64_t step);

/// All values of each tensor.
using Values = std::map<std::string, std::vector<float>>;

/// Weights and moments of a checkpoint, verified.
Values read_checkpoint(const std::filesystem::path& folder);

/// What a rank holds once it has loaded what config.checkpoint.resume names, before any step.
struct Loaded {
  Values values;                ///< the ranks' parts brought together
  int64_t peak_bytes;           ///< of this rank's tensors so far
  int64_t largest_slice_bytes;  ///< of this rank's parts of tensors
};
std::vector<Loaded> load(const RunConfig& config, const Layout& layout);

/// Same names, same bits.
void expect_same_values(const Values& values, const Values& expected);
/// Losses and norms of all steps of both, bit for bit.
void expect_same_steps(const Training& training, const Training& expected);
/// Losses and norms of the steps of `training` within 1e-5 of those of the same number.
void expect_close_steps(const Training& training, const Training& expected);

/// What a file holds, and each file of a folder by its name.
std::string read_file(const std::filesystem::path& path);
std::map<std::string, std::string> read_files(const std::filesystem::path& folder);
void write_file(const std::filesystem::path& path, const std::string& bytes);
/// Inverts a bit of the byte at `offset`; twice mends it.
void damage(const std::filesystem::path& path, size_t offset);

}  // namespace cleave::test
