#include <thread>

#include "ranks.h"
#include "thread_bootstrap.h"

namespace cleave::testing {

std::string backend_name() {
  return "local";
}

int ranks_per_machine(int ranks) {
  return ranks;
}

std::vector<Variant> variants() {
  return {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {8, 0}};
}

void run_ranks(const Variant& variant, const std::function<void(Communicator&)>& body) {
  const cleave_plugin& plugin = load_plugin(CLEAVE_LOCAL_PLUGIN);
  KeyValueStore store;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < variant.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const cleave_bootstrap bootstrap = thread_bootstrap(store, rank, variant.ranks);
      cleave_communicator* created = nullptr;
      char error[512] = "";
      ASSERT_EQ(plugin.create_communicator(&bootstrap, nullptr, &created, error, sizeof error),
                CLEAVE_OK)
          << error;
      Communicator communicator(created);
      body(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace cleave::testing
