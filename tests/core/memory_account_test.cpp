#include "core/memory_account.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <thread>

#include "cleave/error.h"

namespace cleave {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;

/// A float32 tensor of so many MiB. c10 asks the system for exactly these bytes.
at::Tensor tensor_of(int64_t mib) {
  return at::zeros({mib * kMib / 4}, at::kFloat);
}

TEST(MemoryAccount, CountsAllocationsAndFrees) {
  MemoryAccount account;
  EXPECT_EQ(account.current_bytes(), 0);
  at::Tensor tensor = tensor_of(2);
  EXPECT_EQ(account.current_bytes(), 2 * kMib);
  tensor.reset();
  EXPECT_EQ(account.current_bytes(), 0);
  EXPECT_EQ(account.peak_bytes(), 2 * kMib);
}

TEST(MemoryAccount, BooksToTheInnermostScope) {
  MemoryAccount account;
  const at::Tensor outside = tensor_of(1);
  MemoryScope parameters(MemoryCategory::parameters);
  const at::Tensor before = tensor_of(2);
  {
    MemoryScope gradients(MemoryCategory::gradients);
    const at::Tensor inner = tensor_of(4);
    EXPECT_EQ(account.current_bytes(MemoryCategory::gradients), 4 * kMib);
  }
  const at::Tensor after = tensor_of(8);
  EXPECT_EQ(account.current_bytes(MemoryCategory::other), kMib);
  EXPECT_EQ(account.current_bytes(MemoryCategory::parameters), 10 * kMib);
  EXPECT_EQ(account.current_bytes(MemoryCategory::gradients), 0);
  EXPECT_EQ(account.current_bytes(), 11 * kMib);
}

TEST(MemoryAccount, TakesAFreeFromTheCategoryOfItsBlock) {
  MemoryAccount account;
  at::Tensor tensor;
  {
    MemoryScope scope(MemoryCategory::optimizer);
    tensor = tensor_of(1);
  }
  MemoryScope scope(MemoryCategory::activations);
  tensor.reset();
  EXPECT_EQ(account.current_bytes(MemoryCategory::optimizer), 0);
  EXPECT_EQ(account.current_bytes(MemoryCategory::activations), 0);
}

TEST(MemoryAccount, KeepsTheSharesOfThePeak) {
  MemoryAccount account;
  {
    MemoryScope scope(MemoryCategory::parameters);
    tensor_of(1);
    const at::Tensor parameters = tensor_of(2);
    MemoryScope inner(MemoryCategory::activations);
    const at::Tensor activations = tensor_of(4);
  }
  const at::Tensor later = tensor_of(3);
  EXPECT_EQ(account.peak_bytes(), 6 * kMib);
  const auto shares = account.peak_shares();
  EXPECT_EQ(shares[static_cast<size_t>(MemoryCategory::parameters)], 2 * kMib);
  EXPECT_EQ(shares[static_cast<size_t>(MemoryCategory::activations)], 4 * kMib);
  EXPECT_EQ(shares[static_cast<size_t>(MemoryCategory::other)], 0);
}

TEST(MemoryAccount, SeesWhatBackwardAllocates) {
  MemoryAccount account;
  const at::Tensor weight = tensor_of(1).requires_grad_();
  at::Tensor loss;
  {
    MemoryScope scope(MemoryCategory::activations);
    loss = (weight * weight).sum();
  }
  EXPECT_GE(account.current_bytes(MemoryCategory::activations), 4);
  MemoryScope scope(MemoryCategory::gradients);
  auto gradients = torch::autograd::grad({loss}, {weight});
  EXPECT_GE(account.current_bytes(MemoryCategory::gradients), kMib);
  gradients.clear();
  EXPECT_EQ(account.current_bytes(MemoryCategory::gradients), 0);
}

TEST(MemoryAccount, IgnoresFreesOfBlocksFromBeforeIt) {
  at::Tensor early = tensor_of(1);
  MemoryAccount account;
  early.reset();
  EXPECT_EQ(account.current_bytes(), 0);
}

TEST(MemoryAccount, KeepsRanksThatAreThreadsApart) {
  std::vector<std::thread> ranks;
  for (int64_t rank = 1; rank <= 3; ++rank) {
    ranks.emplace_back([rank] {
      MemoryAccount account;
      MemoryScope scope(MemoryCategory::parameters);
      const at::Tensor tensor = tensor_of(rank);
      EXPECT_EQ(account.current_bytes(MemoryCategory::parameters), rank * kMib);
      EXPECT_EQ(account.current_bytes(), rank * kMib);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(MemoryAccount, KeepsABlockBookedThatAnotherThreadFrees) {
  MemoryAccount account;
  at::Tensor tensor = tensor_of(1);
  std::thread([&] { tensor.reset(); }).join();
  EXPECT_EQ(account.current_bytes(), kMib);
}

TEST(MemoryAccount, TakesALostBlockOffWhenItsAddressComesBack) {
  MemoryAccount account;
  const auto report = [](int64_t bytes) {
    static char block;
    c10::reportMemoryUsageToProfiler(&block, bytes, 0, 0, c10::Device(c10::kCPU));
  };
  {
    MemoryScope scope(MemoryCategory::parameters);
    report(100);
  }
  report(30);  // the free in between was not seen
  EXPECT_EQ(account.current_bytes(), 30);
  EXPECT_EQ(account.current_bytes(MemoryCategory::parameters), 0);
  EXPECT_EQ(account.peak_bytes(), 100);
  report(-30);
  EXPECT_EQ(account.current_bytes(), 0);
}

TEST(MemoryAccount, DoesNotSeeThreadsWithoutIt) {
  MemoryAccount account;
  std::thread([] {
    MemoryScope scope(MemoryCategory::communication);
    tensor_of(1);
  }).join();
  EXPECT_EQ(account.peak_bytes(), 0);
}

TEST(MemoryAccount, RefusesASecondOneOnItsThread) {
  MemoryAccount account;
  EXPECT_THROW(MemoryAccount(), RuntimeError);
  tensor_of(1);
  EXPECT_EQ(account.peak_bytes(), kMib);
}

TEST(MemoryAccount, StopsCountingWhenItEnds) {
  { MemoryAccount account; }
  MemoryAccount account;
  EXPECT_EQ(account.current_bytes(), 0);
}

TEST(MemoryCategory, HasAName) {
  EXPECT_STREQ(to_string(MemoryCategory::parameters), "parameters");
  EXPECT_STREQ(to_string(MemoryCategory::other), "other");
}

}  // namespace
}  // namespace cleave
