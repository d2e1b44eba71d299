// What ranks tell each other over the key-value store: results, timeouts, aborts, what stays
// behind.
#include "process/store_communicator.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "process/process.h"

namespace cleave {
namespace {

cleave_collective call_of(cleave_op op, cleave_dtype dtype, const void* send, void* recv,
                          int64_t count) {
  cleave_collective call{};
  call.struct_size = sizeof call;
  call.op = op;
  call.dtype = dtype;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.timeout_ms = 30'000;
  return call;
}

class Rank {
 public:
  explicit Rank(const Bootstrap& bootstrap) : c_(make_store_communicator(bootstrap, "test")) {}
  ~Rank() { c_->api->destroy(c_); }
  int rank() const { return c_->api->rank(c_); }
  int size() const { return c_->api->size(c_); }
  std::string error() const { return c_->api->error(c_); }
  void abort() { c_->api->abort(c_); }
  int32_t finalize() { return c_->api->finalize(c_); }
  int32_t run(const cleave_collective& call) {
    cleave_work* work = nullptr;
    const int32_t status = c_->api->submit(c_, &call, &work);
    if (status != CLEAVE_OK) return status;
    const int32_t done = c_->api->work_wait_host(work);
    c_->api->work_release(work);
    return done;
  }

 private:
  cleave_communicator* c_;
};

void on_ranks(int size, const std::function<void(Rank&, const Bootstrap&)>& body) {
  const auto bootstraps = make_thread_bootstraps(size);
  std::vector<std::jthread> threads;
  for (const auto& bootstrap : bootstraps)
    threads.emplace_back([&] {
      Rank rank(*bootstrap);
      body(rank, *bootstrap);
    });
}

TEST(StoreCommunicator, SumsAndMaximaAreThoseOfAllRanks) {
  for (const int size : {1, 2, 3, 5})
    on_ranks(size, [](Rank& c, const Bootstrap&) {
      std::vector<int64_t> values = {c.rank(), 10, -c.rank()};
      EXPECT_EQ(c.run(call_of(CLEAVE_ALL_REDUCE, CLEAVE_INT64, values.data(), values.data(), 3)),
                CLEAVE_OK)
          << c.error();
      const int64_t sum = c.size() * (c.size() - 1) / 2;
      EXPECT_EQ(values, (std::vector<int64_t>{sum, 10 * c.size(), -sum}));
      double largest = c.rank();
      auto call = call_of(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT64, &largest, &largest, 1);
      call.reduction = CLEAVE_MAX;
      EXPECT_EQ(c.run(call), CLEAVE_OK);
      EXPECT_EQ(largest, c.size() - 1);
    });
}

TEST(StoreCommunicator, GathersUnevenTextsLongerThanOneReadOfTheStore) {
  on_ranks(3, [](Rank& c, const Bootstrap&) {
    const std::vector<int64_t> counts = {5, 0, 50'021};
    const std::string mine(static_cast<size_t>(counts[static_cast<size_t>(c.rank())]),
                           static_cast<char>('a' + c.rank()));
    std::string all(50'026, '?');
    auto call = call_of(CLEAVE_ALL_GATHER, CLEAVE_UINT8, mine.data(), all.data(),
                        static_cast<int64_t>(mine.size()));
    call.recv_counts = counts.data();
    EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
    EXPECT_EQ(all, std::string(5, 'a') + std::string(50'021, 'c'));
  });
}

TEST(StoreCommunicator, BroadcastComesFromAnyRoot) {
  on_ranks(3, [](Rank& c, const Bootstrap&) {
    for (const int root : {0, 2}) {
      int32_t value = c.rank() + 7;
      auto call = call_of(CLEAVE_BROADCAST, CLEAVE_INT32, nullptr, &value, 1);
      call.peer = root;
      EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
      EXPECT_EQ(value, root + 7);
    }
  });
}

TEST(StoreCommunicator, KeysOfPastOperationsAreForgotten) {
  on_ranks(2, [](Rank& c, const Bootstrap& bootstrap) {
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(c.run(call_of(CLEAVE_BARRIER, CLEAVE_UINT8, nullptr, nullptr, 0)), CLEAVE_OK);
    EXPECT_EQ(c.finalize(), CLEAVE_OK);
    char value;
    uint64_t bytes;
    const cleave_bootstrap& table = bootstrap.table();
    for (int i = 1; i <= 5; ++i)
      for (const char* last : {"/1", "/all"}) {
        const std::string key = "control/test/" + std::to_string(i) + last;
        if (i == 5 && last == std::string("/all")) continue;  // while others may still read it
        EXPECT_EQ(table.get(table.context, key.c_str(), &value, 1, &bytes, 0), CLEAVE_TIMED_OUT)
            << key;
      }
  });
}

TEST(StoreCommunicator, MissingRankIsNamedAtTheTimeout) {
  on_ranks(3, [](Rank& c, const Bootstrap&) {
    auto call = call_of(CLEAVE_BARRIER, CLEAVE_UINT8, nullptr, nullptr, 0);
    EXPECT_EQ(c.run(call), CLEAVE_OK);  // all are here
    if (c.rank() == 2) return;
    call.timeout_ms = c.rank() == 0 ? 2000 : 4000;
    EXPECT_EQ(c.run(call), CLEAVE_TIMED_OUT);
    const std::string suspect = c.rank() == 0 ? "rank 2 did not come within 2000 ms" : "rank 0";
    EXPECT_NE(c.error().find(suspect), std::string::npos) << c.error();
  });
}

TEST(StoreCommunicator, AbortFreesTheRanksThatWait) {
  on_ranks(3, [](Rank& c, const Bootstrap&) {
    if (c.rank() == 2) return c.abort();
    auto call = call_of(CLEAVE_BARRIER, CLEAVE_UINT8, nullptr, nullptr, 0);
    call.timeout_ms = 0;
    EXPECT_EQ(c.run(call), CLEAVE_ABORTED);
    EXPECT_NE(c.error().find("aborted"), std::string::npos) << c.error();
  });
}

TEST(StoreCommunicator, WhatItCannotDoIsNotOffered) {
  on_ranks(1, [](Rank& c, const Bootstrap&) {
    char byte = 0;
    EXPECT_EQ(c.run(call_of(CLEAVE_REDUCE_SCATTER, CLEAVE_UINT8, &byte, &byte, 1)),
              CLEAVE_UNSUPPORTED);
    EXPECT_NE(c.error().find("key-value store"), std::string::npos) << c.error();
  });
}

}  // namespace
}  // namespace cleave
