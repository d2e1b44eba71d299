// What compress has not sent yet is in checkpoints: a run at another layout sends it still.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <mutex>
#include <sstream>

#include "checkpoint/export_checkpoint.h"
#include "core/extra_state.h"
#include "core/rank.h"
#include "core/resume.h"
#include "support/equivalence.h"
#include "training.h"

namespace cleave::test {
namespace {

Layout compressed(Layout layout) {
  return with(std::move(layout), strategy("compress"));
}

RunConfig config_of(const TemporaryFolder& folder, const std::string& name) {
  RunConfig config = resume_config(folder, name);
  config.train.micro_batch_size = 1;
  config.model.tie_word_embeddings = true;
  return config;
}

constexpr char kPrefix[] = "compress.residual.";

Values residuals(const Values& values) {
  Values found;
  for (const auto& [name, value] : values)
    if (name.starts_with(kPrefix)) found[name] = value;
  return found;
}

// By tensor: the whole one, first dim and all, of what the ranks hold once they have loaded.
Values loaded_residuals(const RunConfig& given, const Layout& layout) {
  const RunConfig config = on(given, layout);
  Values values;
  std::mutex mutex;
  std::ostringstream console;
  run_as_threads(layout.ranks, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                                   const std::function<void()>& on_failure) {
    run_as_rank(config, process, bootstrap, on_failure,
                [&](const TrainerContext& context, const SolvedPlan&) {
                  const auto checkpoint = find_resume_point(context, console);
                  const Trainer trainer(context, nullptr, checkpoint.get());
                  const ExtraStates states(context);
                  const auto tensors = states.stored_tensors();
                  const auto parts = states.saved_parts();
                  std::lock_guard lock(mutex);
                  for (const StoredTensor& tensor : tensors)
                    values[tensor.name].resize(Slice::whole(tensor.shape).num_elements(), NAN);
                  for (const SavedPart& part : parts)
                    for (const StoredTensor& tensor : tensors)
                      if (tensor.name == part.name)
                        for_each_common_run(
                            part.slice, Slice::whole(tensor.shape), [&](const CommonRun& run) {
                              std::copy_n(part.values.const_data_ptr<float>() + run.from, run.count,
                                          values[part.name].begin() + run.to);
                            });
                });
  });
  return values;
}

// Over the first dim, in its order.
Values sums(const Values& values, const Values& weights) {
  Values result;
  for (const auto& [name, value] : values) {
    const size_t elements = weights.at(name.substr(sizeof kPrefix - 1)).size();
    std::vector<float>& sum = result[name];
    sum.resize(elements, 0);
    for (size_t i = 0; i < value.size(); ++i) sum[i % elements] += value[i];
  }
  return result;
}

struct Move {
  Layout from;
  Layout to;
  bool keeps_owners;  // as many ranks, or machines, have their own
};

TEST(CompressResume, SumsWhatWasNotSentOntoTheFirstRankOfAnotherNumber) {
  for (const auto& [from, to, keeps_owners] :
       {Move{compressed(ddp(2)), compressed(ddp(4)), false},
        Move{compressed(zero(2, 4)), compressed(fsdp(3)), false},
        Move{compressed(ddp(2)), compressed(zero(1, 2)), true},
        Move{compressed(ddp(2)), compressed_in_pairs(zero(2, 4)), true},  // two machines
        Move{compressed(ddp(4)), compressed_in_pairs(zero(2, 4)), false},
        Move{compressed_in_pairs(zero(2, 4)), compressed_in_pairs(ddp(4)), false},
        Move{compressed_in_pairs(ddp(4)), compressed(fsdp(3)), false},
        Move{compressed(ddp(3)), compressed_in_pairs(fsdp(4)), false},
        Move{compressed(three_axes(ddp(2))), compressed(ddp(3)), false},
        Move{compressed(ddp(3)), compressed(three_axes(zero(1, 2))), false}}) {
    SCOPED_TRACE(message(from.name, " to ", to.name));
    const TemporaryFolder folder;
    const RunConfig first = config_of(folder, "first");
    train_until(3, first, from);
    const Values saved = read_checkpoint(checkpoint_of(first, 3));
    const Values then = residuals(saved);
    EXPECT_FALSE(then.empty());
    RunConfig config = config_of(folder, "then");
    config.checkpoint.resume = checkpoint_of(first, 3);
    const Values now = loaded_residuals(config, to);
    expect_same_values(sums(now, saved), sums(then, saved));
    if (keeps_owners) {
      expect_same_values(now, then);
    } else {
      for (const auto& [name, value] : now)
        for (size_t i = saved.at(name.substr(sizeof kPrefix - 1)).size(); i < value.size(); ++i)
          ASSERT_EQ(value[i], 0) << name;
    }
    EXPECT_EQ(train_until(5, config, to).steps.size(), 2);
  }
}

TEST(CompressResume, SaysWhatItDoesWithWhatWasNotSent) {
  const TemporaryFolder folder;
  const RunConfig lossy = config_of(folder, "lossy"), exact = config_of(folder, "exact");
  train_until(1, lossy, compressed(ddp(2)));
  train_until(1, exact, ddp(2));
  const auto console = [&](const RunConfig& from, const Layout& layout) {
    RunConfig config = config_of(folder, message("to ", layout.name));
    config.checkpoint.resume = checkpoint_of(from, 1);
    return train_until(2, config, layout).console;
  };
  const auto expect_line = [](const std::string& text, const std::string& line) {
    EXPECT_NE(text.find("\n" + line + "\n"), std::string::npos) << text;
  };
  expect_line(console(exact, compressed(ddp(2))),
              "compress.residual: not in the checkpoint, begins at zero");
  expect_line(console(lossy, ddp(2)),
              "compress.residual: in the checkpoint, but no strategy of this run keeps it; it is "
              "dropped");
  expect_line(console(lossy, compressed(ddp(3))),
              "compress.residual: those of 2 ranks are summed onto the first of 3 now");
  EXPECT_EQ(console(lossy, compressed(zero(2, 2))).find("compress.residual"), std::string::npos);
}

TEST(CompressResume, ExportsWeightsAlone) {
  const TemporaryFolder folder;
  const RunConfig config = config_of(folder, "run");
  train_until(1, config, compressed(ddp(2)));
  const Values saved = read_checkpoint(checkpoint_of(config, 1));
  std::ostringstream out;
  export_checkpoint(checkpoint_of(config, 1), folder.path() / "export", "float32", out);
  const size_t weights = residuals(saved).size();  // one for each
  EXPECT_TRUE(out.str().starts_with(message("exported ", weights, " tensors"))) << out.str();
}

TEST(CompressResume, MemoryOfTheCopyIsPredicted) {
  const TemporaryFolder folder;
  const RunConfig config = on(config_of(folder, "run"), compressed(ddp(2)));
  RunConfig without = config;
  without.checkpoint = {};
  const PlannedRun run(config, 2, 1), bare(without, 2, 1);
  const int64_t copy = saved_bytes(run.parameters, run.mesh, 1) +
                       extra_saved_bytes(run.strategies, run.parameters, run.mesh, 1);
  EXPECT_EQ(run.plan.memory_bytes() - bare.plan.memory_bytes(), copy);
  train_until(1, config, compressed(ddp(2)));
  int64_t written = 0;
  const CheckpointReader reader(checkpoint_of(config, 1));
  for (const StoredTensor& tensor : reader.manifest().tensors)
    for (const StoredSlice& slice : tensor.slices)
      if (slice.file.find("00001") != std::string::npos)
        written += slice.slice.num_elements() * static_cast<int64_t>(sizeof(float));
  EXPECT_EQ(written, copy);
}

}  // namespace
}  // namespace cleave::test
