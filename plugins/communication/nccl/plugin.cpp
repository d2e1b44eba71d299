// NCCL 2.28: collectives between GPUs over NVLink, PCIe, InfiniBand or sockets, as NCCL chooses.
//
// Bytes sent per rank, S bytes over n ranks: all_reduce 2(n-1)/n S and reduce_scatter, all_gather,
// all_to_all (n-1)/n S over its rings; broadcast and send S. The v forms with unequal counts are
// groups of reductions or broadcasts, one for each rank's block: the same bytes, less evenly
// spread.
//
// Order: every communicator has a stream of its own, which waits for the inputs on the caller's
// stream; the caller's stream waits for the result by an event. Sends and receives have a
// communicator of two and a stream for each direction between two ranks (channel.h), made when
// first used; tags are not looked at.
//
// Sums: NCCL adds 16-bit floats in float32 and rounds after every combination, n - 1 times at
// most, where other backends round once. All ranks get the same bits of an all_reduce. The order
// depends on size, ranks, topology and NCCL's version, so bits are those of another run only where
// all of these are the same. MAX does not keep NaN.
//
// Failures: a thread for each communicator watches the deadlines and NCCL's asynchronous errors, so
// that also a host that waits for a stream comes free; it is the one that calls ncclCommAbort,
// which may block. A timeout ends the whole communicator. Memory per rank: NCCL's own buffers (some
// MiB for each communicator and channel), 256 bytes for barriers.
//
// Beside an MPI that moves GPU memory itself, on the same GPUs, NCCL promises nothing: wait for one
// before starting the other (NCCL's guide, "Inter-GPU Communication with CUDA-aware MPI").
#include <iterator>
#include <memory>

#include "cleave/error.h"
#include "cleave/options.h"
#include "cleave/plugin.h"
#include "communicator.h"
#include "nccl_config.h"
#include "rendezvous.h"

namespace cleave::nccl {
namespace {

constexpr int64_t kInitTimeoutMs = 300'000;

std::string describe(const Gpu& gpu) {
  int nccl = 0, cuda = 0;
  ncclGetVersion(&nccl);
  check(cudaRuntimeGetVersion(&cuda), "cudaRuntimeGetVersion");
  return message("NCCL ", nccl / 10000, ".", nccl / 100 % 100, ".", nccl % 100, ", CUDA ",
                 cuda / 1000, ".", cuda % 1000 / 10, ", ", gpu.name);
}

std::unique_ptr<Backend> create(const cleave_bootstrap& bootstrap, const cleave_options* options) {
  // two ranks have only one order
  if (bootstrap.deterministic != 0 && bootstrap.world_size > 2)
    throw ConfigError(
        message("communication backend nccl: train.deterministic = true, and the order "
                "of NCCL's sums depends on sizes and on the algorithm that it chooses; "
                "use backend = \"mpi\", or deterministic = false"));
  use_interface(std::string(Options(options).text("socket_interface")));
  const Gpu gpu = find_gpu(bootstrap);
  const DeviceGuard guard(gpu.device);
  const Meeting meeting = meet(bootstrap, gpu);
  auto core = std::make_shared<Core>(gpu.device);
  Link& link = core->add_link();
  link.rank = bootstrap.rank;
  link.size = bootstrap.world_size;
  ncclConfig_t config = non_blocking();
  core->open(
      link,
      [&](ncclComm_t* comm) {
        return ncclCommInitRankConfig(comm, link.size, meeting.id, link.rank, &config);
      },
      core->time_limit(kInitTimeoutMs, "ncclCommInitRankConfig"), "ncclCommInitRankConfig");
  return std::make_unique<NcclBackend>(Setup{bootstrap, gpu.device, describe(gpu)}, std::move(core),
                                       link, meeting.key);
}

int32_t create_communicator(const cleave_bootstrap* bootstrap, const cleave_options* options,
                            cleave_communicator** out, char* error, uint64_t capacity) {
  return create_with_status(&create, bootstrap, options, out, error, capacity);
}

constexpr cleave_option kOptions[] = {
    {"socket_interface", CLEAVE_OPTION_STRING, "\"\"", 0, 0, nullptr, nullptr,
     "network interface for NCCL's sockets (NCCL_SOCKET_IFNAME); empty: NCCL chooses", 1},
};

constexpr cleave_abi nccl_abi() {
  cleave_abi abi = this_abi();
  set_text(abi.cuda_version, CLEAVE_CUDA_VERSION);
  set_text(abi.nccl_version, CLEAVE_STRINGIFY(NCCL_MAJOR) "." CLEAVE_STRINGIFY(
                                 NCCL_MINOR) "." CLEAVE_STRINGIFY(NCCL_PATCH));
  return abi;
}

constexpr cleave_plugin kDescriptor = {
    make_identity(CLEAVE_COMMUNICATION, "nccl", "0.1.0", nccl_abi()),
    std::size(kOptions),
    kOptions,
    &create_communicator,
    [](cleave_capabilities* capabilities) { *capabilities = cuda_capabilities(); },
    nullptr};

}  // namespace
}  // namespace cleave::nccl

CLEAVE_EXPORT_PLUGIN(cleave::nccl::kDescriptor)
