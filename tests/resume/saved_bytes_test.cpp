// What a save writes and holds, and what a load holds.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/checkpoint_reader.h"
#include "core/planned_run.h"
#include "core/saved_state.h"
#include "training.h"

namespace cleave::test {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr int64_t kStateBytes = 12;  // of a parameter: weight and two moments

// Where digits don't matter, each third.
std::vector<Layout> some_of(const std::vector<Layout>& all) {
  std::vector<Layout> some;
  for (size_t i = 0; i < all.size(); i += kIsThorough ? 1 : 3) some.push_back(all[i]);
  return some;
}

// Without the files' headers, by rank.
std::vector<int64_t> written_bytes(const std::filesystem::path& checkpoint) {
  std::vector<int64_t> bytes;
  const CheckpointReader reader(checkpoint);
  for (const StoredFile& file : reader.manifest().files)
    bytes.push_back(file.size_bytes - file.header_bytes);
  return bytes;
}

int64_t sum(const std::vector<int64_t>& values) {
  int64_t total = 0;
  for (const int64_t value : values) total += value;
  return total;
}

TEST(SavedBytes, AreEachParametersOnceAndEachRanksOwn) {
  for (const Layout& layout :
       some_of({one_rank(), ddp(3), zero(1, 3), zero(3, 2), fsdp(4), hybrid_fsdp(),
                tensor_parallel(2), pipeline(3), three_axes(zero(1, 2)), three_axes(ddp(2))}))
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(layout.name);
      const TemporaryFolder folder;
      RunConfig config = on(resume_config(folder), layout);
      config.train.micro_batch_size = 1;
      config.model.tie_word_embeddings = tied;
      train_until(1, config, layout);
      const std::vector<int64_t> bytes = written_bytes(checkpoint_of(config, 1));
      ASSERT_EQ(std::ssize(bytes), layout.ranks);
      const PlannedRun run(config, layout.ranks, 0);
      EXPECT_EQ(sum(bytes), kStateBytes * run.model.table.num_elements());
      for (int rank = 0; rank < layout.ranks; ++rank) {
        const PlannedRun own(config, layout.ranks, rank);
        EXPECT_EQ(bytes[rank], saved_bytes(own.parameters, own.mesh, rank)) << rank;
      }
    }
}

TEST(SavedBytes, OfEqualCopiesAreSharedEvenly) {
  for (const int ranks : {2, 3, 4}) {
    const TemporaryFolder folder;
    RunConfig config = resume_config(folder);
    config.train.micro_batch_size = 1;
    train_until(1, config, ddp(ranks));
    const auto tensors = std::ssize(CheckpointReader(checkpoint_of(config, 1)).manifest().tensors);
    const std::vector<int64_t> bytes = written_bytes(checkpoint_of(config, 1));
    const int64_t share = sum(bytes) / ranks;
    const int64_t rounding = 16 * 4 * tensors;
    for (const int64_t rank : bytes) {
      EXPECT_LE(rank, share + rounding) << ranks;
      EXPECT_GE(rank, share - ranks * rounding) << ranks;
    }
  }
}

// Of each rank after the last step.
std::vector<double> peaks_mib(RunConfig config, const Layout& layout) {
  return train_until(4, std::move(config), layout).steps.back().peak_memory_mib;
}

TEST(SavedBytes, AreHeldOnceMoreWhileTrainingGoesOnAsPredicted) {
  for (const Layout& layout :
       some_of({one_rank(), ddp(2), zero(1, 3), fsdp(2), pipeline(2), tensor_parallel(2)})) {
    SCOPED_TRACE(layout.name);
    const TemporaryFolder folder;
    RunConfig saves = on(resume_config(folder, "saves"), layout);
    saves.checkpoint.every_steps = 1;
    saves.model.vocab_size = 1009;  // so that a message between stages, here or not, is little
    RunConfig waits = saves, without = saves;
    waits.checkpoint.directory = folder.path() / "waits";
    waits.checkpoint.asynchronous = false;
    without.checkpoint = {};
    const auto saving = peaks_mib(saves, layout), none = peaks_mib(without, layout);
    const auto waiting = peaks_mib(waits, layout);
    for (int rank = 0; rank < layout.ranks; ++rank) {
      const PlannedRun run(saves, layout.ranks, rank);
      const auto copy = static_cast<double>(saved_bytes(run.parameters, run.mesh, rank)) / kMiB;
      EXPECT_NEAR(saving[rank] / (none[rank] + copy), 1, 0.02) << rank;
      EXPECT_NEAR(waiting[rank] / none[rank], 1, 0.02) << rank;
      EXPECT_GT(copy / none[rank], 0.1) << rank;
      const auto predicted = static_cast<double>(run.plan.memory_bytes()) / kMiB;
      EXPECT_NEAR(predicted / saving[rank], 1, 0.1) << rank;  // activations: within 10 %
      const PlannedRun bare(without, layout.ranks, rank);
      EXPECT_EQ(static_cast<double>(bare.plan.memory_bytes()) / kMiB + copy, predicted) << rank;
    }
  }
}

TEST(LoadedBytes, AddNoMoreThanTheLargestSlice) {
  for (const Layout& layout : some_of({one_rank(), ddp(2), zero(1, 3), zero(3, 2), fsdp(4),
                                       tensor_parallel(2), pipeline(2), three_axes(zero(1, 2))}))
    for (const char* dtype : {"float32", "bfloat16"}) {
      SCOPED_TRACE(layout.name);
      const TemporaryFolder folder;
      RunConfig config = resume_config(folder);
      config.train.dtype = dtype;
      config.train.micro_batch_size = 1;
      train_until(1, config, one_rank());
      const auto loading = load(config, layout);
      config.checkpoint.resume = "none";
      const auto beginning = load(config, layout);
      for (size_t rank = 0; rank < loading.size(); ++rank)
        EXPECT_LE(loading[rank].peak_bytes,
                  beginning[rank].peak_bytes + loading[rank].largest_slice_bytes)
            << rank;
    }
}

}  // namespace
}  // namespace cleave::test
