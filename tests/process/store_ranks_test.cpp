// Ranks that mpirun started on one machine find each other through the key-value store, with
// nothing set in the environment but what the launcher sets.
#include <gtest/gtest.h>

#include "process/process.h"
#include "process/store_communicator.h"

namespace cleave {
namespace {

cleave_status run(cleave_communicator& c, const cleave_collective& call) {
  cleave_work* work = nullptr;
  const int32_t status = c.api->submit(&c, &call, &work);
  if (status != CLEAVE_OK) return static_cast<cleave_status>(status);
  const int32_t done = c.api->work_wait_host(work);
  c.api->work_release(work);
  return static_cast<cleave_status>(done);
}

TEST(StoreOfMpirun, JoinsTheRanksOfOneMachine) {
  ASSERT_FALSE(std::getenv("MASTER_ADDR") || std::getenv("SLURM_STEP_ID"));
  const ProcessInfo process = read_process_info();
  ASSERT_EQ(process.launcher, "Open MPI");
  const auto bootstrap = make_process_bootstrap(process);
  cleave_communicator* c = make_store_communicator(*bootstrap, "test");
  int64_t sum = process.rank + 1;
  cleave_collective call{};
  call.struct_size = sizeof call;
  call.op = CLEAVE_ALL_REDUCE;
  call.dtype = CLEAVE_INT64;
  call.send = call.recv = &sum;
  call.count = 1;
  call.timeout_ms = 60'000;
  EXPECT_EQ(run(*c, call), CLEAVE_OK) << c->api->error(c);
  EXPECT_EQ(sum, process.world_size * (process.world_size + 1) / 2);
  EXPECT_EQ(c->api->finalize(c), CLEAVE_OK) << c->api->error(c);
  c->api->destroy(c);
}

}  // namespace
}  // namespace cleave
