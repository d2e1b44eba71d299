#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "map_environment.h"

namespace cleave {
namespace {

constexpr int64_t kWaitMs = 20'000;
constexpr int64_t kShortWaitMs = 50;

int32_t set(const Bootstrap& bootstrap, const char* key, const std::string& value) {
  const cleave_bootstrap& table = bootstrap.table();
  return table.set(table.context, key, value.data(), value.size());
}

struct Answer {
  int32_t status;
  std::string value;
  uint64_t bytes;
};

Answer get(const Bootstrap& bootstrap, const char* key, int64_t timeout_ms = kWaitMs,
           uint64_t capacity = 64) {
  const cleave_bootstrap& table = bootstrap.table();
  std::string value(capacity, '\0');
  uint64_t bytes = 0;
  const int32_t status = table.get(table.context, key, value.data(), capacity, &bytes, timeout_ms);
  value.resize(std::min(bytes, capacity));
  return {status, value, bytes};
}

/// A port that was free a moment ago.
uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

TEST(ThreadBootstrap, DescribesRanksAsThreads) {
  const auto bootstraps = make_thread_bootstraps(3);
  ASSERT_EQ(bootstraps.size(), 3u);
  const cleave_bootstrap& table = bootstraps[2]->table();
  EXPECT_EQ(table.struct_size, sizeof(cleave_bootstrap));
  EXPECT_EQ(table.rank, 2);
  EXPECT_EQ(table.world_size, 3);
  EXPECT_EQ(table.local_rank, 2);
  EXPECT_EQ(table.local_size, 3);
  EXPECT_EQ(table.threads, 1);
}

TEST(ThreadBootstrap, SharesKeysAmongItsRanks) {
  const auto bootstraps = make_thread_bootstraps(2);
  EXPECT_EQ(set(*bootstraps[0], "id", std::string("a\0b", 3)), CLEAVE_OK);
  const Answer answer = get(*bootstraps[1], "id");
  EXPECT_EQ(answer.status, CLEAVE_OK);
  EXPECT_EQ(answer.value, std::string("a\0b", 3));
}

TEST(ThreadBootstrap, WaitsForALateKey) {
  const auto bootstraps = make_thread_bootstraps(2);
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    set(*bootstraps[0], "late", "x");
  });
  EXPECT_EQ(get(*bootstraps[1], "late").value, "x");
  late.join();
}

TEST(ThreadBootstrap, TimesOutAndNamesTheKey) {
  const auto bootstraps = make_thread_bootstraps(1);
  EXPECT_EQ(bootstraps[0]->error(), "");
  EXPECT_EQ(get(*bootstraps[0], "never", kShortWaitMs).status, CLEAVE_TIMED_OUT);
  EXPECT_EQ(get(*bootstraps[0], "never", 0).status, CLEAVE_TIMED_OUT);
  EXPECT_EQ(bootstraps[0]->error(), "bootstrap: no rank has set \"never\" in time");
  set(*bootstraps[0], "never", "x");
  EXPECT_EQ(bootstraps[0]->error(), "");
}

TEST(ThreadBootstrap, TakesTheLongestTimeout) {
  const auto bootstraps = make_thread_bootstraps(1);
  set(*bootstraps[0], "key", "x");
  EXPECT_EQ(get(*bootstraps[0], "key", INT64_MAX).status, CLEAVE_OK);
  EXPECT_EQ(get(*bootstraps[0], "never", INT64_MIN).status, CLEAVE_TIMED_OUT);
}

TEST(ThreadBootstrap, ReportsTheSizeOfAValueThatDoesNotFit) {
  const auto bootstraps = make_thread_bootstraps(1);
  set(*bootstraps[0], "key", "abcdef");
  const Answer answer = get(*bootstraps[0], "key", kWaitMs, 4);
  EXPECT_EQ(answer.status, CLEAVE_OK);
  EXPECT_EQ(answer.value, "abcd");
  EXPECT_EQ(answer.bytes, 6u);
}

TEST(ThreadBootstrap, KeepsGroupsApart) {
  const auto one = make_thread_bootstraps(1), other = make_thread_bootstraps(1);
  set(*one[0], "key", "x");
  EXPECT_EQ(get(*other[0], "key", 0).status, CLEAVE_TIMED_OUT);
}

TEST(ProcessBootstrap, NeedsNoAddressForOneRank) {
  const auto bootstrap = make_process_bootstrap({0, 1, 0, 1, ""}, make_environment({}));
  EXPECT_EQ(set(*bootstrap, "key", "x"), CLEAVE_OK);
  EXPECT_EQ(get(*bootstrap, "key").value, "x");
  EXPECT_EQ(bootstrap->table().threads, 0);
}

TEST(ProcessBootstrap, OpensNothingUntilItIsUsed) {
  const auto bootstrap = make_process_bootstrap({1, 2, 1, 2, ""}, make_environment({}));
  EXPECT_EQ(bootstrap->table().rank, 1);
  EXPECT_EQ(bootstrap->error(), "");
}

TEST(ProcessBootstrap, SaysWhatToSetWhenItHasNoAddress) {
  const auto bootstrap = make_process_bootstrap({0, 2, 0, 2, "Open MPI"}, make_environment({}));
  EXPECT_EQ(set(*bootstrap, "key", "x"), CLEAVE_FAILED);
  EXPECT_NE(bootstrap->error().find("set MASTER_ADDR"), std::string::npos) << bootstrap->error();
}

TEST(ProcessBootstrap, ExchangesKeysThroughTheStoreOfRank0) {
  const Environment environment = make_environment(
      {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(free_port())}});
  std::unique_ptr<Bootstrap> ranks[2];
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank] = make_process_bootstrap({rank, 2, rank, 2, "torchrun"}, environment);
  }
  std::thread rank_1([&] {
    EXPECT_EQ(get(*ranks[1], "id").value, std::string("a\0b", 3));
    EXPECT_EQ(set(*ranks[1], "answer", ""), CLEAVE_OK);
    EXPECT_EQ(get(*ranks[1], "never", kShortWaitMs).status, CLEAVE_TIMED_OUT);
    EXPECT_EQ(get(*ranks[1], "id").status, CLEAVE_OK);  // a time-out leaves the store usable
  });
  EXPECT_EQ(set(*ranks[0], "id", std::string("a\0b", 3)), CLEAVE_OK);
  const Answer answer = get(*ranks[0], "answer");
  EXPECT_EQ(answer.status, CLEAVE_OK);
  EXPECT_EQ(answer.bytes, 0u);
  rank_1.join();
  ranks[1].reset();
}

TEST(ProcessBootstrap, JoinsTheStoreOfTorchrunsAgent) {
  const std::string port = std::to_string(free_port());
  const auto agent = make_process_bootstrap(
      {0, 2, 0, 2, ""}, make_environment({{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}}));
  EXPECT_EQ(set(*agent, "started", "x"), CLEAVE_OK);  // the agent serves before it starts ranks
  const auto rank_0 = make_process_bootstrap(
      {0, 2, 0, 2, "torchrun"}, make_environment({{"MASTER_ADDR", "127.0.0.1"},
                                                  {"MASTER_PORT", port},
                                                  {"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
  EXPECT_EQ(set(*rank_0, "key", "x"), CLEAVE_OK) << rank_0->error();
  EXPECT_EQ(get(*agent, "key").value, "x");
}

TEST(ProcessBootstrap, SaysWhatToSetWhenItsPortIsTaken) {
  const std::string port = std::to_string(free_port());
  const Environment environment = make_environment({{"OMPI_COMM_WORLD_SIZE", "2"},
                                                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                    {"PMIX_NAMESPACE", "job"},
                                                    {"MASTER_PORT", port}});
  const auto other_job = make_process_bootstrap({0, 2, 0, 2, "Open MPI"}, environment);
  ASSERT_EQ(set(*other_job, "key", "x"), CLEAVE_OK) << other_job->error();
  const auto rank_0 = make_process_bootstrap({0, 2, 0, 2, "Open MPI"}, environment);
  EXPECT_EQ(set(*rank_0, "key", "x"), CLEAVE_FAILED);
  EXPECT_NE(rank_0->error().find("key-value store at 127.0.0.1:" + port), std::string::npos)
      << rank_0->error();
  EXPECT_NE(rank_0->error().find("MASTER_PORT"), std::string::npos) << rank_0->error();
}

TEST(ProcessBootstrap, NamesTheAddressThatDoesNotAnswer) {
  const std::string port = std::to_string(free_port());
  const auto rank_1 = make_process_bootstrap(
      {1, 2, 1, 2, ""}, make_environment({{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}}));
  EXPECT_EQ(get(*rank_1, "key", kShortWaitMs).status, CLEAVE_FAILED);
  EXPECT_NE(rank_1->error().find("key-value store at 127.0.0.1:" + port), std::string::npos)
      << rank_1->error();
}

}  // namespace
}  // namespace cleave
