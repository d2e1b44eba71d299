#include "training.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/checkpoint_reader.h"
#include "cleave/error.h"
#include "core/gather.h"
#include "core/rank.h"
#include "core/resume.h"
#include "core/run.h"
#include "core/saved_state.h"
#include "support/tiny_run.h"

namespace cleave::test {

namespace fs = std::filesystem;

namespace {

std::vector<StepNumbers> read_steps(const fs::path& file) {
  std::vector<StepNumbers> steps;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    steps.push_back(
        {json.at("step"), json.at("loss"), json.at("grad_norm"), json.at("peak_memory_mib")});
  }
  return steps;
}

std::vector<float> values_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

Loaded gather_state(const TrainerContext& context, const Optimizer& optimizer) {
  Loaded loaded{{}, context.memory.peak_bytes(), 0};
  for (const Parameter* parameter : context.model.parameters) {
    const auto whole = [&](const at::Tensor& part) {
      loaded.largest_slice_bytes =
          std::max(loaded.largest_slice_bytes, static_cast<int64_t>(part.nbytes()));
      return values_of(gather_whole(*parameter, parameter->state_placement, part, context.mesh,
                                    context.communicators.world()));
    };
    loaded.values[parameter->name] = whole(parameter->master);
    std::map<std::string, at::Tensor> moments;
    if (parameter->master.numel() > 0)
      for (const auto& [state, tensor] : optimizer.states(*parameter)) moments[state] = tensor;
    for (const std::string& state : adamw_state_names()) {
      const at::Tensor part = moments.contains(state) ? moments[state] : at::empty({0});
      loaded.values[moment_name(state, *parameter)] = whole(part);
    }
  }
  return loaded;
}

bool is_same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

RunConfig resume_config(const TemporaryFolder& folder, const std::string& name) {
  RunConfig config = tiny_config(folder);
  fs::resize_file(config.data.path, 37 * 16 + 5);
  config.optimizer.decay_steps = 14;
  config.checkpoint.directory = folder.path() / name / "checkpoints";
  config.metrics.directory = folder.path() / name / "metrics";
  return config;
}

Training train(const RunConfig& config, int ranks) {
  Training training;
  training.rank_errors.resize(ranks);
  std::vector<char> is_config_error(ranks, 0);
  std::ostringstream console;
  try {
    run_as_threads(ranks, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                              const std::function<void()>& on_failure) {
      try {
        run_as_rank(config, process, bootstrap, on_failure,
                    [&](const TrainerContext& context, const SolvedPlan& plan) {
                      cleave::train(context, plan, nullptr, console);
                    });
      } catch (const std::exception& error) {
        training.rank_errors[process.rank] = error.what();
        is_config_error[process.rank] = dynamic_cast<const ConfigError*>(&error) != nullptr;
        throw;
      }
    });
  } catch (const std::exception& error) {
    training.error = error.what();
    training.is_config_error =
        std::count(is_config_error.begin(), is_config_error.end(), 1) == ranks;
  }
  training.console = console.str();
  training.steps = read_steps(config.metrics.directory / "metrics.jsonl");
  return training;
}

Training train(const RunConfig& config, const Layout& layout) {
  return train(on(config, layout), layout.ranks);
}

Training train_until(int64_t step, RunConfig config, const Layout& layout) {
  config.train.steps = step;
  const Training training = train(config, layout);
  EXPECT_EQ(training.error, "") << layout.name;
  return training;
}

fs::path checkpoint_of(const RunConfig& config, int64_t step) {
  return config.checkpoint.directory / step_folder_name(step);
}

Values read_checkpoint(const fs::path& folder) {
  const CheckpointReader reader(folder);
  reader.verify();
  Values values;
  for (const StoredTensor& tensor : reader.manifest().tensors) {
    const Slice whole = Slice::whole(tensor.shape);
    std::vector<float>& out = values[tensor.name];
    out.resize(static_cast<size_t>(whole.num_elements()));
    reader.read(tensor.name, whole, out.data());
  }
  return values;
}

std::vector<Loaded> load(const RunConfig& given, const Layout& layout) {
  const RunConfig config = on(given, layout);
  std::vector<Loaded> ranks(layout.ranks);
  std::ostringstream console;
  run_as_threads(layout.ranks, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                                   const std::function<void()>& on_failure) {
    run_as_rank(config, process, bootstrap, on_failure,
                [&](const TrainerContext& context, const SolvedPlan&) {
                  const auto checkpoint = find_resume_point(context, console);
                  const Trainer trainer(context, nullptr, checkpoint.get());
                  ranks[context.rank] = gather_state(context, trainer.optimizer());
                });
  });
  return ranks;
}

void expect_same_values(const Values& values, const Values& expected) {
  EXPECT_EQ(values.size(), expected.size());
  for (const auto& [name, value] : expected) {
    const auto found = values.find(name);
    if (found == values.end())
      ADD_FAILURE() << name << " is missing";
    else
      EXPECT_TRUE(is_same(found->second, value)) << name;
  }
}

void expect_same_steps(const Training& training, const Training& expected) {
  ASSERT_EQ(training.steps.size(), expected.steps.size());
  for (size_t i = 0; i < expected.steps.size(); ++i) {
    EXPECT_EQ(training.steps[i].step, expected.steps[i].step);
    EXPECT_EQ(training.steps[i].loss, expected.steps[i].loss) << "step " << i + 1;
    EXPECT_EQ(training.steps[i].grad_norm, expected.steps[i].grad_norm) << "step " << i + 1;
  }
}

void expect_close_steps(const Training& training, const Training& expected) {
  for (const StepNumbers& step : training.steps) {
    const auto same = std::find_if(expected.steps.begin(), expected.steps.end(),
                                   [&](const StepNumbers& e) { return e.step == step.step; });
    ASSERT_NE(same, expected.steps.end()) << "step " << step.step;
    EXPECT_NEAR(step.loss / same->loss, 1, 1e-5) << "step " << step.step;
    EXPECT_NEAR(step.grad_norm / same->grad_norm, 1, 1e-5) << "step " << step.step;
  }
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::map<std::string, std::string> read_files(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = read_file(entry.path());
  return files;
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

void damage(const fs::path& path, size_t offset) {
  std::string bytes = read_file(path);
  bytes.at(offset) = static_cast<char>(bytes[offset] ^ 4);
  write_file(path, bytes);
}

}  // namespace cleave::test
