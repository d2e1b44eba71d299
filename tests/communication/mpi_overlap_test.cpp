// The mpi plugin's thread moves a transfer while its rank computes and makes no calls.
#include <sched.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <thread>

#include "mpi_options.h"

namespace cleave::testing {
namespace {

using Overlap = Ranks;

/// Keeps the core busy without any call into the plugin.
double compute_for(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  double sum = 0;
  while (std::chrono::steady_clock::now() < end)
    for (int i = 1; i < 1000; ++i) sum += 1.0 / i;
  return sum;
}

TEST_P(Overlap, AllReduceEndsDuringComputation) {
  if (GetParam().segment_bytes > 0) return;  // one variant is enough: each takes 64 MiB a rank
  on_ranks([](Communicator& c) {
    if (c.size() > 2) return;
    std::vector<float> data(16 << 20, 1.0f);
    // a busy machine may need longer: the claim is that no call is needed, not how long it takes
    bool done = false;
    for (int milliseconds = 300; milliseconds <= 9600 && !done; milliseconds *= 2) {
      std::fill(data.begin(), data.end(), 1.0f);
      c.barrier();
      Work work = c.start(collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.data(), data.data(),
                                     static_cast<int64_t>(data.size())));
      EXPECT_GT(compute_for(std::chrono::milliseconds(milliseconds)), 0);
      // poll() itself moves at most a segment or two of the 256
      int32_t mine = work.poll() == CLEAVE_OK ? 0 : 1;
      EXPECT_EQ(work.wait(), CLEAVE_OK);
      cleave_collective call = collective(CLEAVE_ALL_REDUCE, CLEAVE_INT32, &mine, &mine, 1);
      EXPECT_EQ(c.run(call), CLEAVE_OK);
      done = mine == 0;
    }
    EXPECT_TRUE(done) << "not done on all ranks after 9600 ms of computation";
    EXPECT_EQ(data.front(), static_cast<float>(c.size()));
    EXPECT_EQ(data.back(), static_cast<float>(c.size()));
  });
}

TEST_P(Overlap, SmallMessagesEndDuringComputation) {
  on_ranks([](Communicator& c) {
    bool done = false;
    for (int milliseconds = 50; milliseconds <= 9600 && !done; milliseconds *= 2) {
      std::vector<float> data(256, 1.0f);
      Work work =
          c.start(collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.data(), data.data(), 256));
      compute_for(std::chrono::milliseconds(milliseconds));
      int32_t mine = work.poll() == CLEAVE_OK ? 0 : 1;
      EXPECT_EQ(work.wait(), CLEAVE_OK);
      EXPECT_EQ(c.run(collective(CLEAVE_ALL_REDUCE, CLEAVE_INT32, &mine, &mine, 1)), CLEAVE_OK);
      done = mine == 0;
    }
    EXPECT_TRUE(done);
  });
}

TEST_P(Overlap, SizesThatDifferBetweenRanksAreAnError) {
  on_ranks([](Communicator& c) {
    if (c.size() == 1) return;
    Communicator child(c.split(0, c.rank()));
    static thread_local float data[64];
    cleave_collective call =
        collective(CLEAVE_BROADCAST, CLEAVE_FLOAT32, nullptr, data, c.rank() == 0 ? 8 : 9);
    if (c.rank() > 1) return;
    const int32_t status = child.run(call);
    if (c.rank() == 1) {
      EXPECT_EQ(status, CLEAVE_FAILED);
      EXPECT_NE(child.error().find("rank 0 "), std::string::npos) << child.error();
      EXPECT_NE(child.error().find("the ranks' calls differ in order or size"), std::string::npos)
          << child.error();
    }
  });
}

TEST(MpiBackend, DescribesLibraryAndPath) {
  run_ranks(variants().front(), [](Communicator& c) {
    EXPECT_EQ(c.describe().find("Open MPI "), 0u) << c.describe();
    EXPECT_NE(c.describe().find(", pml "), std::string::npos) << c.describe();
  });
}

/// Of the thread with this name in this process; empty when there is none.
std::optional<cpu_set_t> cores_of(const std::string& thread) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm") >> std::ws, name);
    cpu_set_t cores;
    if (name == thread &&
        sched_getaffinity(std::stoi(entry.path().filename()), sizeof cores, &cores) == 0)
      return cores;
  }
  return std::nullopt;
}

// Also run under mpirun --bind-to core.
TEST(MpiBackend, ItsThreadMayUseAllCores) {
  run_ranks(variants().front(), [](Communicator&) {});
  std::thread([] {
    cpu_set_t all;
    std::memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
    sched_getaffinity(0, sizeof all, &all);  // without those that it may not have
    std::optional<cpu_set_t> cores;
    const auto may_use_all = [&] { return cores && CPU_EQUAL(&all, &*cores); };
    for (int look = 0; look < 1000 && !may_use_all(); ++look) {  // it has just been started
      if (look > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      cores = cores_of("cleave-mpi");
    }
    ASSERT_TRUE(cores);
    EXPECT_TRUE(may_use_all()) << CPU_COUNT(&*cores) << " of " << CPU_COUNT(&all);
  }).join();
}

TEST(MpiBackend, RefusesAnotherWorldThanTheLaunchers) {
  cleave_bootstrap bootstrap{};
  bootstrap.struct_size = sizeof bootstrap;
  bootstrap.world_size = 77;
  bootstrap.local_size = 77;
  const std::vector<cleave_option_value> values = mpi_options(variants().front());
  const cleave_options options{values.data(), static_cast<uint32_t>(values.size())};
  cleave_communicator* created = nullptr;
  char error[512] = "";
  EXPECT_EQ(load_plugin(CLEAVE_MPI_PLUGIN)
                .create_communicator(&bootstrap, &options, &created, error, sizeof error),
            CLEAVE_INVALID);
  EXPECT_NE(std::string(error).find("rank 0 of 77"), std::string::npos) << error;
  EXPECT_NE(std::string(error).find("mpirun"), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(, Overlap, ::testing::ValuesIn(variants()));

}  // namespace
}  // namespace cleave::testing
