// The ranks are threads; the nccl plugin is linked with a fake of NCCL and of CUDA's runtime.
#include "nccl_ranks.h"

#include <thread>

#include "fake_nccl/fake.h"
#include "thread_bootstrap.h"

namespace cleave::testing {

std::string backend_name() {
  return "nccl";
}

int ranks_per_machine(int ranks) {
  return ranks;
}

std::vector<Variant> variants() {
  return {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {8, 0}};
}

cleave_communicator* create_nccl(const cleave_bootstrap& bootstrap, std::string& error,
                                 const char* socket_interface) {
  const cleave_option_value value{
      "socket_interface", CLEAVE_OPTION_STRING, 0, 0, socket_interface, nullptr, 0};
  const cleave_options options{&value, 1};
  cleave_communicator* created = nullptr;
  error.assign(1024, '\0');
  cleave_plugin_entry_v1()->create_communicator(&bootstrap, &options, &created, error.data(),
                                                error.size());
  error.resize(error.find('\0'));
  return created;
}

void on_threads(int ranks, const std::function<void(const cleave_bootstrap&)>& body) {
  KeyValueStore store;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { body(thread_bootstrap(store, rank, ranks)); });
  for (std::thread& thread : threads) thread.join();
}

void run_ranks(const Variant& variant, const std::function<void(Communicator&)>& body) {
  on_threads(variant.ranks, [&](const cleave_bootstrap& bootstrap) {
    std::string error;
    cleave_communicator* created = create_nccl(bootstrap, error);
    ASSERT_NE(created, nullptr) << error;
    cudaSetDevice(bootstrap.local_rank);  // as the host does
    Communicator communicator(created);
    body(communicator);
  });
  EXPECT_EQ(fake::mismatch(), "");
}

}  // namespace cleave::testing
