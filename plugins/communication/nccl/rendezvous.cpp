#include "rendezvous.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>

#include "cleave/error.h"
#include "cuda_objects.h"

namespace cleave::nccl {
namespace {

constexpr int kOldestVersion = 22800;
constexpr char kWhere[] = "communication backend nccl: ";
// Ranks start at different times (slow file systems, cold caches).
constexpr int64_t kMeetingTimeoutMs = 300'000;
constexpr size_t kCapacity = 1024;
constexpr char kGoodNews = 'I', kBadNews = 'E';  // an id follows, or a message

// A name alone may be the same on two machines.
std::string machine() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return std::string(name) + " (boot " + boot.substr(0, boot.find('-')) + ")";
}

std::string version_text(int version) {
  return message(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

class Store {
 public:
  explicit Store(const cleave_bootstrap& table) : table_(table) {}

  void set(const std::string& key, const std::string& value) const {
    if (table_.set(table_.context, key.c_str(), value.data(), value.size()) != CLEAVE_OK)
      throw ConfigError(message(kWhere, "rank ", table_.rank, " can't reach the other ranks"));
  }
  /// "" when nobody sets it in time.
  std::string get(const std::string& key, int64_t timeout_ms) const {
    std::string value(kCapacity, '\0');
    uint64_t bytes = 0;
    const int32_t status =
        table_.get(table_.context, key.c_str(), value.data(), value.size(), &bytes, timeout_ms);
    value.resize(status == CLEAVE_OK ? std::min<uint64_t>(bytes, kCapacity) : 0);
    return value;
  }
  std::string await(const std::string& key, int from) const {
    const std::string value = get(key, kMeetingTimeoutMs);
    if (value.empty())
      throw ConfigError(message(kWhere, "rank ", table_.rank, " heard nothing from rank ", from,
                                " within ", kMeetingTimeoutMs, " ms; look at what it reported"));
    return value;
  }

 private:
  const cleave_bootstrap& table_;
};

/// The ranks may create several communicators over one bootstrap: each rank counts its own.
std::string next_key(const cleave_bootstrap& bootstrap, const Store& store) {
  const std::string counter = message("nccl/count/", bootstrap.rank);
  const std::string before = store.get(counter, 0);
  const std::string number = std::to_string(before.empty() ? 0 : std::stoi(before) + 1);
  store.set(counter, number);
  return "nccl/" + number;
}

/// Rank 0's: what all ranks are to be told.
std::string invite(const cleave_bootstrap& bootstrap, const Store& store, const std::string& key) {
  std::map<std::string, int> holders;
  for (int rank = 0; rank < bootstrap.world_size; ++rank) {
    const std::string place = store.await(message(key, "/gpu/", rank), rank);
    const auto [holder, is_first] = holders.emplace(place, rank);
    if (!is_first)
      return message(kBadNews, "ranks ", holder->second, " and ", rank, " have one GPU, ", place,
                     ", and NCCL wants one for each rank; start at most as many ranks on a machine "
                     "as it has GPUs, or use backend = \"mpi\"");
  }
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) != ncclSuccess)
    return message(kBadNews, "ncclGetUniqueId: ", ncclGetLastError(nullptr),
                   "; NCCL_DEBUG=INFO says more");
  return kGoodNews + std::string(id.internal, sizeof id.internal);
}

}  // namespace

Gpu find_gpu(const cleave_bootstrap& bootstrap) {
  int version = 0;
  ncclGetVersion(&version);
  if (version < kOldestVersion)
    throw ConfigError(message(kWhere, "the NCCL library found is ", version_text(version),
                              ", built against ", version_text(NCCL_VERSION_CODE), ", needs ",
                              version_text(kOldestVersion),
                              " or later; put a newer libnccl.so.2 first on LD_LIBRARY_PATH"));
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0)
    throw ConfigError(
        message(kWhere, "no GPU can be used here: ",
                status != cudaSuccess ? cudaGetErrorString(status) : "CUDA sees none",
                "; use backend = \"mpi\" (or \"local\"), or run where nvidia-smi lists a GPU"));
  Gpu gpu{bootstrap.local_rank % count, "", ""};
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, gpu.device), "cudaGetDeviceProperties");
  gpu.name = properties.name;
  char bus[32] = "";
  check(cudaDeviceGetPCIBusId(bus, sizeof bus, gpu.device), "cudaDeviceGetPCIBusId");
  gpu.place = message(bus, " of host ", machine());
  return gpu;
}

Meeting meet(const cleave_bootstrap& bootstrap, const Gpu& gpu) {
  const Store store(bootstrap);
  const std::string key = next_key(bootstrap, store);
  store.set(message(key, "/gpu/", bootstrap.rank), gpu.place);
  if (bootstrap.rank == 0) store.set(key + "/id", invite(bootstrap, store, key));
  const std::string news = store.await(key + "/id", 0);
  if (news.front() == kBadNews) throw ConfigError(kWhere + news.substr(1));
  Meeting meeting{{}, key};
  if (news.size() != 1 + sizeof meeting.id.internal)
    throw ConfigError(message(kWhere, "rank 0 sent an id of ", news.size() - 1,
                              " bytes; give all ranks the same NCCL"));
  std::memcpy(meeting.id.internal, news.data() + 1, sizeof meeting.id.internal);
  return meeting;
}

}  // namespace cleave::nccl
