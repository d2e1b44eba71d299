// The ranks are the processes that mpirun started; all run the same tests in the same order.
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "mpi_options.h"

namespace cleave::testing {
namespace {

constexpr int64_t kSmallSegments = 4096;

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

/// The plugin's communicators over all processes, one for each variant.
class World {
 public:
  World() {
    bootstrap_.struct_size = sizeof bootstrap_;
    bootstrap_.rank = from_environment("OMPI_COMM_WORLD_RANK", 0);
    bootstrap_.world_size = from_environment("OMPI_COMM_WORLD_SIZE", 1);
    bootstrap_.local_size = from_environment("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  }

  int size() const { return bootstrap_.world_size; }
  int ranks_per_machine() const { return bootstrap_.local_size; }
  bool has_machines() const { return bootstrap_.local_size < bootstrap_.world_size; }

  Communicator& get(const Variant& variant) {
    auto& entry =
        roots_[{variant.segment_bytes, variant.algorithm, variant.deterministic, variant.wire}];
    if (!entry) entry = std::make_unique<Communicator>(create(variant));
    return *entry;
  }

  void finalize() {
    for (auto& [variant, root] : roots_) {
      cleave_communicator* c = root->get();
      EXPECT_EQ(c->api->finalize(c), CLEAVE_OK) << root->error();
    }
    roots_.clear();
  }

 private:
  cleave_communicator* create(const Variant& variant) {
    // odd on purpose: transfers that do not divide
    const std::vector<cleave_option_value> values =
        mpi_options(variant, variant.segment_bytes == kSmallSegments ? 1001 : 1 << 30);
    const cleave_options options{values.data(), static_cast<uint32_t>(values.size())};
    bootstrap_.deterministic = variant.deterministic ? 1 : 0;
    cleave_communicator* created = nullptr;
    char error[512] = "";
    if (load_plugin(CLEAVE_MPI_PLUGIN)
            .create_communicator(&bootstrap_, &options, &created, error, sizeof error) != CLEAVE_OK)
      throw std::runtime_error(error);
    return created;
  }

  cleave_bootstrap bootstrap_{};
  std::map<std::tuple<int64_t, std::string, bool, std::string>, std::unique_ptr<Communicator>>
      roots_;
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

int ranks_per_machine(int) {
  return world().ranks_per_machine();
}

std::vector<Variant> variants() {
  const int size = world().size();
  std::vector<Variant> all = {{size, 0},
                              {size, 0, "direct"},
                              {size, kSmallSegments, "ring"},
                              {size, 1 << 17, "ring"},
                              {size, 1 << 17, "halving-doubling"},
                              {size, 0, "auto", true},
                              {size, kSmallSegments, "ring", true}};
  if (world().has_machines())
    all.insert(all.end(), {{size, kSmallSegments, "two-level"},
                           {size, kSmallSegments, "two-level", true},
                           {size, kSmallSegments, "ring", false, "packed"},
                           {size, 0, "auto", false, "packed"},
                           {size, 0, "auto", true, "packed"}});
  return all;
}

void run_ranks(const Variant& variant, const std::function<void(Communicator&)>& body) {
  Communicator& root = world().get(variant);
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
