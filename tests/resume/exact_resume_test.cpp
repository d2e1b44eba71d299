// A run that was cut in parts is, at the same layout, the run in one part: bit for bit.
#include <gtest/gtest.h>

#include "support/equivalence.h"
#include "training.h"

namespace cleave::test {
namespace {

struct Case {
  Layout layout;
  int64_t micro_batch_size = 2;
  bool tied = false;
  const char* dtype = "float32";
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.layout.name << ", micro batch " << c.micro_batch_size << (c.tied ? ", tied, " : ", ")
       << c.dtype;
}

RunConfig config_of(const TemporaryFolder& folder, const std::string& name, const Case& c) {
  RunConfig config = resume_config(folder, name);
  config.train.micro_batch_size = c.micro_batch_size;
  config.train.dtype = c.dtype;
  config.model.tie_word_embeddings = c.tied;
  return config;
}

// As a user would: the same file each time, with more steps.
void expect_same_in_parts(const Case& c, const std::vector<int64_t>& ends) {
  const TemporaryFolder folder;
  const RunConfig straight = config_of(folder, "straight", c),
                  parts = config_of(folder, "parts", c);
  const Training whole = train_until(ends.back(), straight, c.layout);
  Training last;
  for (const int64_t end : ends) last = train_until(end, parts, c.layout);
  ASSERT_EQ(std::ssize(whole.steps), ends.back());
  expect_same_steps(last, whole);
  expect_same_values(read_checkpoint(checkpoint_of(parts, ends.back())),
                     read_checkpoint(checkpoint_of(straight, ends.back())));
}

PluginTable recompute(const char* mode) {
  return strategy("activation-checkpoint", {{"mode", mode}});
}

std::vector<Case> one_of_each_kind() {
  return {{one_rank()},
          {ddp(3), 1},
          {zero(1, 2), 3, true},
          {zero(3, 3)},
          {fsdp(2), 3, true, "bfloat16"},
          {hybrid_fsdp(), 1},
          {tensor_parallel(2, true)},
          {pipeline(3, "zb-h1"), 2, true},
          {three_axes(zero(2, 2))},
          {with(three_axes(ddp(2)), strategy("compress")), 2, true}};
}

std::vector<Case> all_cases() {
  std::vector<Case> cases = one_of_each_kind();
  const std::vector<Case> more = {{one_rank(), 12, true},
                                  {one_rank(), 1, false, "bfloat16"},
                                  {ddp(2), 3, true},
                                  {ddp(2), 2, true, "bfloat16"},
                                  {zero(1, 3), 1, false, "bfloat16"},
                                  {zero(2, 2), 3},
                                  {zero(2, 3), 2, true},
                                  {zero(3, 2), 2, true, "bfloat16"},
                                  {fsdp(3), 2},
                                  {tensor_parallel(2), 3, true, "bfloat16"},
                                  {pipeline(2), 2, true},
                                  {pipeline(2, "zb-h1"), 3},
                                  {pipeline(2, "interleaved-1f1b"), 3, true},
                                  {pipeline(3), 2, false, "bfloat16"},
                                  {pipeline(3, "interleaved-1f1b")},
                                  {three_axes(ddp(2)), 1, true},
                                  {three_axes(zero(1, 2)), 2, true},
                                  {three_axes(zero(3, 2)), 2, false, "bfloat16"},
                                  {three_axes(fsdp(2)), 2, true},
                                  {with(ddp(3), recompute("\"full\"")), 2},
                                  {with(fsdp(2), recompute("\"selective\"")), 3, true},
                                  {with(three_axes(zero(1, 2)), recompute("\"full\"")), 2},
                                  {with(ddp(3), strategy("compress")), 1, true},
                                  {compressed_in_pairs(ddp(4)), 1, true},
                                  {compressed_in_pairs(zero(2, 4)), 1, true},
                                  {compressed_in_pairs(fsdp(4)), 3},
                                  {with(zero(1, 2), strategy("compress")), 3},
                                  {with(zero(2, 3), strategy("compress")), 2, true},
                                  {with(fsdp(2), strategy("compress")), 3, true, "bfloat16"}};
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

class ExactResume : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Layouts, ExactResume,
                         testing::ValuesIn(kIsThorough ? all_cases() : one_of_each_kind()));

TEST_P(ExactResume, TwelveStepsAreFiveAndSeven) {
  expect_same_in_parts(GetParam(), {5, 12});
}

TEST(ExactResumeTwice, TwelveStepsAreFiveAndThreeAndFour) {
  for (const Case& c : {Case{ddp(2), 2, true}, Case{zero(3, 3), 1}, Case{fsdp(2), 2, true},
                        Case{three_axes(zero(1, 2)), 2, true}})
    expect_same_in_parts(c, {5, 8, 12});
}

TEST(ExactResumeInput, ClipsIgnoresUnevenlyAndCrossesEpochs) {
  const TemporaryFolder folder;
  const RunConfig config = resume_config(folder);
  const Training training = train_until(12, config, one_rank());
  for (const StepNumbers& step : training.steps)
    EXPECT_GT(step.grad_norm, config.optimizer.clip_norm) << step.step;
  const int64_t samples = 37, first = 5 * 12, end = 12 * 12;
  EXPECT_GT(first / samples, 0);
  EXPECT_GT((end - 1) / samples, first / samples);
}

TEST(ExactResumeCopy, ThatIsWrittenMeanwhileEqualsOneThatIsWaitedFor) {
  const TemporaryFolder folder;
  RunConfig waits = resume_config(folder, "waits"), goes_on = resume_config(folder, "goes on");
  waits.checkpoint.asynchronous = false;
  for (const int64_t end : {5, 12}) {
    train_until(end, waits, zero(1, 2));
    train_until(end, goes_on, zero(1, 2));
  }
  expect_same_values(read_checkpoint(checkpoint_of(waits, 12)),
                     read_checkpoint(checkpoint_of(goes_on, 12)));
}

}  // namespace
}  // namespace cleave::test
