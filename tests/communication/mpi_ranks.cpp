// The ranks are the processes that mpirun started; all run the same tests in the same order.
#include <cstdlib>
#include <map>
#include <memory>

#include "ranks.h"

namespace cleave::testing {
namespace {

constexpr int64_t kSmallSegments = 4096;

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

/// The plugin's communicators over all processes, one for each segment size.
class World {
 public:
  World() {
    bootstrap_.struct_size = sizeof bootstrap_;
    bootstrap_.rank = from_environment("OMPI_COMM_WORLD_RANK", 0);
    bootstrap_.world_size = from_environment("OMPI_COMM_WORLD_SIZE", 1);
  }

  int size() const { return bootstrap_.world_size; }

  Communicator& get(int64_t segment_bytes) {
    auto& entry = roots_[segment_bytes];
    if (!entry) entry = std::make_unique<Communicator>(create(segment_bytes));
    return *entry;
  }

  void finalize() {
    for (auto& [segment_bytes, root] : roots_) {
      cleave_communicator* c = root->get();
      EXPECT_EQ(c->api->finalize(c), CLEAVE_OK) << root->error();
    }
    roots_.clear();
  }

 private:
  cleave_communicator* create(int64_t segment_bytes) {
    // odd on purpose: transfers that do not divide
    const int64_t message_bytes = segment_bytes > 0 ? 1001 : 1 << 30;
    const cleave_option_value values[] = {
        {"segment_bytes", CLEAVE_OPTION_BYTES, segment_bytes > 0 ? segment_bytes : 1 << 17, 0, "",
         nullptr, 0},
        {"max_message_bytes", CLEAVE_OPTION_BYTES, message_bytes, 0, "", nullptr, 0}};
    const cleave_options options{values, 2};
    cleave_communicator* created = nullptr;
    char error[512] = "";
    if (load_plugin(CLEAVE_MPI_PLUGIN)
            .create_communicator(&bootstrap_, &options, &created, error, sizeof error) != CLEAVE_OK)
      throw std::runtime_error(error);
    return created;
  }

  cleave_bootstrap bootstrap_{};
  std::map<int64_t, std::unique_ptr<Communicator>> roots_;
};

World& world() {
  static World instance;
  return instance;
}

/// A test that failed on one rank fails on all, so that they report it and stay together.
void agree_on_failure(Communicator& root) {
  int32_t failed = ::testing::Test::HasFailure() ? 1 : 0;
  const bool failed_here = failed != 0;
  cleave_collective call = collective(CLEAVE_ALL_REDUCE, CLEAVE_INT32, &failed, &failed, 1);
  call.reduction = CLEAVE_MAX;
  ASSERT_EQ(root.run(call), CLEAVE_OK) << root.error();
  if (failed != 0 && !failed_here) ADD_FAILURE() << "failed on another rank";
}

}  // namespace

std::string backend_name() {
  return "mpi";
}

std::vector<Variant> variants() {
  return {{world().size(), 0}, {world().size(), kSmallSegments}};
}

void run_ranks(const Variant& variant, const std::function<void(Communicator&)>& body) {
  Communicator& root = world().get(variant.segment_bytes);
  {
    Communicator fresh(root.split(0, root.rank()));
    body(fresh);
  }
  agree_on_failure(root);
}

void finalize_ranks() {
  world().finalize();
}

}  // namespace cleave::testing
