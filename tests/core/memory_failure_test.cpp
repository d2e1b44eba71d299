#include "core/memory_failure.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "cleave/error.h"

namespace cleave {
namespace {

constexpr int64_t kTooMany = int64_t{1} << 50;

at::Tensor floats(int64_t elements) {
  return at::empty({elements}, at::kFloat);
}

std::string failure_of(const MemoryAccount& account, const std::function<void()>& body) {
  SolvedPlan plan;
  plan.memory = {{"moments", int64_t{6} << 20, MemoryCategory::optimizer}};
  try {
    explain_failed_allocation(3, plan, account, body);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(FailedAllocation, NamesRankSizeAndCategoryAndShowsWhatWasInUse) {
  MemoryAccount account;
  const std::string text = failure_of(account, [] {
    MemoryScope scope(MemoryCategory::optimizer);
    const at::Tensor moments = floats(1 << 20);
    floats(kTooMany);
  });
  EXPECT_TRUE(text.starts_with("rank 3: out of memory: 4294967296.00 MiB more for optimizer can't"))
      << text;
  // predicted, in use when it failed, peak
  EXPECT_NE(text.find("\n  optimizer            6.00        4.00        4.00\n"), std::string::npos)
      << text;
  EXPECT_EQ(account.current_bytes(), 0);
}

TEST(FailedAllocation, AdvisesByTheLargestCategory) {
  const std::pair<MemoryCategory, const char*> advice[] = {
      {MemoryCategory::parameters, "split the parameters"},
      {MemoryCategory::master, "split the optimizer states"},
      {MemoryCategory::optimizer, "split the optimizer states"},
      {MemoryCategory::gradients, "split the gradients"},
      {MemoryCategory::activations, "smaller train.micro_batch_size"},
      {MemoryCategory::communication, "smaller buckets"},
      {MemoryCategory::other, "smaller train.global_batch_size"}};
  for (const auto& [category, what] : advice) {
    MemoryAccount account;
    const std::string text = failure_of(account, [category = category] {
      MemoryScope scope(category);
      floats(kTooMany);
    });
    EXPECT_NE(text.find(what), std::string::npos) << text;
  }
}

TEST(FailedAllocation, MayBeOneOfTheStandardLibrary) {
  MemoryAccount account;
  { floats(1 << 20); }
  const std::string text = failure_of(account, [] { throw std::bad_alloc(); });
  EXPECT_TRUE(text.starts_with("rank 3: out of memory (std::bad_alloc)")) << text;
  EXPECT_NE(text.find("\n  other                0.00           -        4.00\n"), std::string::npos)
      << text;
}

TEST(FailedAllocation, IsNotBlamedForALaterError) {
  MemoryAccount account;
  const std::string text = failure_of(account, [] {
    EXPECT_THROW(floats(kTooMany), c10::Error);
    floats(1);
    throw RuntimeError("a peer is gone");
  });
  EXPECT_EQ(text, "a peer is gone");
}

TEST(FailedAllocation, LeavesConfigErrorsAlone) {
  MemoryAccount account;
  SolvedPlan plan;
  EXPECT_THROW(explain_failed_allocation(0, plan, account, [] { throw ConfigError("no"); }),
               ConfigError);
}

}  // namespace
}  // namespace cleave
