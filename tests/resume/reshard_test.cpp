// A checkpoint of one layout goes on at another as if nothing had happened.
#include <gtest/gtest.h>

#include "cleave/error.h"
#include "training.h"

namespace cleave::test {
namespace {

std::vector<Layout> layouts() {
  return {ddp(2),
          zero(1, 3),
          zero(3, 2),
          fsdp(4),
          tensor_parallel(2),
          pipeline(2),
          three_axes(zero(1, 2))};
}

// All of them where digits matter; else a ring, in which each saves once and loads once.
std::vector<Layout> targets_of(const Layout& from) {
  const std::vector<Layout> all = layouts();
  if (kIsThorough) return all;
  size_t next = 0;
  while (all[next].name != from.name) ++next;
  return {all[(next + 1) % all.size()]};
}

RunConfig config_of(const TemporaryFolder& folder, const std::string& name) {
  RunConfig config = resume_config(folder, name);
  config.train.micro_batch_size = 1;
  config.model.tie_word_embeddings = true;
  return config;
}

class Reshard : public testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(From, Reshard, testing::ValuesIn(layouts()),
                         [](const auto& info) { return std::to_string(info.index); });

TEST_P(Reshard, ToEachLayoutKeepsAllBitsAndGoesOn) {
  const TemporaryFolder folder;
  const Training straight = train_until(6, config_of(folder, "straight"), one_rank());
  const RunConfig first = config_of(folder, "first");
  train_until(3, first, GetParam());
  const Values saved = read_checkpoint(checkpoint_of(first, 3));

  for (const Layout& target : targets_of(GetParam())) {
    SCOPED_TRACE(target.name);
    RunConfig config = config_of(folder, "on " + target.name);
    config.checkpoint.resume = checkpoint_of(first, 3);
    for (const Loaded& rank : load(config, target)) expect_same_values(rank.values, saved);
    const Training training = train_until(6, config, target);
    EXPECT_EQ(training.steps.size(), 3);
    EXPECT_EQ(training.steps.at(0).step, 4);
    expect_close_steps(training, straight);
  }
}

TEST(ReshardDtype, KeepsFloat32WeightsAndMomentsBothWays) {
  const TemporaryFolder folder;
  for (const auto& [then, now] : {std::pair{"float32", "bfloat16"}, {"bfloat16", "float32"}}) {
    SCOPED_TRACE(now);
    RunConfig config = config_of(folder, message("from ", then));
    config.train.dtype = then;
    train_until(3, config, zero(1, 2));
    const Values saved = read_checkpoint(checkpoint_of(config, 3));
    config.train.dtype = now;
    for (const Loaded& rank : load(config, fsdp(3))) expect_same_values(rank.values, saved);
    const Training training = train_until(6, config, fsdp(3));
    EXPECT_NE(
        training.console.find(message("changed: train.dtype \"", then, "\" -> \"", now, "\"\n")),
        std::string::npos)
        << training.console;

    RunConfig straight = config_of(folder, message("straight ", now));
    straight.train.dtype = now;
    const Training expected = train_until(6, straight, one_rank());
    for (size_t i = 3; i < 6; ++i)
      EXPECT_NEAR(training.steps.at(i).loss / expected.steps.at(i).loss, 1, 0.03) << i;
  }
}

TEST(ReshardRanks, FromTwoToFourToOneToThreeTrainsTheSameModel) {
  const TemporaryFolder folder;
  const Training straight = train_until(12, config_of(folder, "straight"), one_rank());
  const RunConfig config = config_of(folder, "parts");
  Training last;
  int64_t end = 0;
  for (const Layout& layout : {zero(1, 2), fsdp(4), one_rank(), ddp(3)})
    last = train_until(end += 3, config, layout);
  ASSERT_EQ(last.steps.size(), 12);
  expect_close_steps(last, straight);
}

}  // namespace
}  // namespace cleave::test
