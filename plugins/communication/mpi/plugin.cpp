// Open MPI 5 (or 4.1) under our own algorithms: MPI carries point-to-point messages only, over UCX
// between machines; the ranks of one machine share memory.
//
// Bytes sent per rank, S bytes over n ranks on M machines of k ranks:
//   all_reduce     2(n-1)/n S: ring, recursive halving and doubling; small ones (n-1) S at once
//   reduce_scatter, all_gather, all_to_all  (n-1)/n S;  broadcast  S along a chain;  send  S
// Of these a machine's link carries, in each direction:
//   two-level  2(M-1)/M S, for an all_reduce; ring  2(n-1)/n S
//   two-level, 16-bit floats  3(M-1)/M S: float32 sums cross, rounded results come back
//   direct sums  k(M-1)/M S: 16-bit floats, deterministic sums where two levels can't be
//   and with wire = "packed" 0.85 (float32) or 0.7 (bfloat16) of it in rings and large direct sums,
//   where values that follow each other have alike magnitudes (packing.h); no value changes
// Copies between the ranks of one machine (shared_large.h): none, where all buffers come from
// `allocate`; else one in and one out.
// Kept: shared_large.h's mailboxes, 8 MiB for each communicator of several ranks on a machine, as
// far as they are used; for each operation in flight 8 segments (ring; 24 when packed), S
// (halving), 2 n + 2 M segments (direct sums; 8 n + 2 M when packed), S/k (two-level
// reduce_scatter; 2 S/k for any two-level sum of 16-bit floats), two chunks of 4 MiB (GPU memory).
//
// Determinism: the order of every sum depends on sizes, ranks and machines alone, and all ranks get
// the same bits. Shared memory sums in rank order. 16-bit floats, summed in float32 and rounded
// once, and with [train] deterministic all types are added in one order, each machine's ranks and
// then the machines, so that neither the size nor the place in a buffer changes a bit; elsewhere
// the order is the algorithm's.
#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cleave/error.h"
#include "cleave/options.h"
#include "cleave/plugin.h"
#include "mpi_communicator.h"

namespace cleave::mpi {
namespace {

Policy read_policy(const Options& values, bool deterministic, Runtime& runtime) {
  Policy policy;
  policy.max_message_bytes = values.bytes("max_message_bytes");
  policy.forced = parse_algorithm(values.text("algorithm"));
  policy.deterministic = deterministic;
  if (const std::string file(values.text("link_file")); !file.empty())
    policy.link = read_link(file, runtime.neighbours().num_machines());
  return policy;
}

std::string describe(const Policy& policy) {
  return message("algorithm = \"", algorithm_name(policy.forced),
                 "\", train.deterministic = ", policy.deterministic ? "true" : "false",
                 " and a link of ", policy.link.alpha_us, " us and ", policy.link.gb_s, " GB/s");
}

/// The ranks' policies as one: other algorithms would never meet, not even in the host's check that
/// all ranks were given the same options. Throws the same on all ranks.
Policy agree_on_policy(const std::function<Policy()>& read, MPI_Comm world, int size) {
  Policy policy;
  std::array<char, 1024> mine{};
  try {
    policy = read();
    describe(policy).copy(mine.data() + 1, mine.size() - 2);
  } catch (const ConfigError& error) {
    mine[0] = '!';
    std::string_view(error.what()).copy(mine.data() + 1, mine.size() - 2);
  }
  std::vector<decltype(mine)> all(static_cast<size_t>(size));
  check(MPI_Allgather(mine.data(), mine.size(), MPI_CHAR, all.data(), mine.size(), MPI_CHAR, world),
        "MPI_Allgather");
  for (const auto& rank : all)
    if (rank[0] == '!') throw ConfigError(rank.data() + 1);
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw ConfigError(message("ranks differ in what communication mpi was told: rank ", rank,
                                " of ", size, " has ", all[rank].data() + 1, ", rank 0 has ",
                                all[0].data() + 1,
                                "; start all ranks with the same options and link_file"));
  return policy;
}

// To pack and to unpack a byte takes a core about 0.2 ns and saves 0.15 bytes on the wire.
constexpr double kPackBelowGbS = 0.5;

bool packs(std::string_view wire, const Link& link) {
  const bool is_slow = link.is_measured() && link.gb_s < kPackBelowGbS;
  return wire == "packed" || (wire == "auto" && is_slow);
}

std::unique_ptr<Backend> create(const cleave_bootstrap& bootstrap, const cleave_options* options) {
  if (bootstrap.threads == 1 && bootstrap.world_size > 1)
    throw ConfigError(message("communication backend mpi: the ", bootstrap.world_size,
                              " ranks are threads of one process and MPI's ranks are processes; "
                              "use backend = \"local\""));
  const Options values(options);
  Transport transport{std::string(values.text("pml")), {}};
  for (const std::string_view device : values.text_list("devices"))
    transport.devices.emplace_back(device);
  const auto runtime = Runtime::acquire(transport, bootstrap.world_size, bootstrap.local_size);
  int rank = 0;
  int size = 1;
  MPI_Comm world = MPI_COMM_NULL;
  runtime->locked([&] {
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    if (size != bootstrap.world_size || rank != bootstrap.rank) return;
    check(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
    runtime->meet_neighbours();
  });
  if (world == MPI_COMM_NULL)
    throw ConfigError(message("communication backend mpi: the launcher says rank ", bootstrap.rank,
                              " of ", bootstrap.world_size, ", MPI says rank ", rank, " of ", size,
                              "; start the ranks with the mpirun of ", runtime->description()));
  Policy policy;
  runtime->locked([&] {
    const auto read = [&] { return read_policy(values, bootstrap.deterministic == 1, *runtime); };
    policy = agree_on_policy(read, world, size);
  });
  constexpr int64_t kLeastSegment = 8;  // an element of any type
  const int64_t segment_bytes =
      std::max(kLeastSegment, std::min(values.bytes("segment_bytes"), policy.max_message_bytes));
  const Settings settings{segment_bytes, policy.max_message_bytes,
                          packs(values.text("wire"), policy.link)};
  return std::make_unique<MpiBackend>(runtime, world, settings, policy, true);
}

int32_t create_communicator(const cleave_bootstrap* bootstrap, const cleave_options* options,
                            cleave_communicator** out, char* error, uint64_t capacity) {
  return create_with_status(&create, bootstrap, options, out, error, capacity);
}

constexpr cleave_option kOptions[] = {
    {"algorithm", CLEAVE_OPTION_ENUM, "\"auto\"", 0, 0,
     "auto|direct|ring|halving-doubling|two-level|shared-memory", "",
     "how to reduce and gather, wherever it can do the operation; auto: the cheapest by a model of "
     "the link. host bench prints what each operation gets",
     0},
    {"link_file", CLEAVE_OPTION_PATH, "\"\"", 0, 0, nullptr, "",
     "what host bench --json wrote on these machines: the model of the link takes its fit of "
     "send_recv; without: 30 us, 1 GB/s",
     1},
    {"pml", CLEAVE_OPTION_ENUM, "\"auto\"", 0, 0, "auto|ob1|ucx", "",
     "what carries messages, in Open MPI's terms; auto: UCX between machines, over TCP too; on one "
     "machine Open MPI's own choice",
     0},
    {"devices", CLEAVE_OPTION_STRING_LIST, "[]", 0, 0, nullptr, "",
     "network interfaces or adapters to use, e.g. [\"eth0\"]; none: all that MPI finds", 1},
    {"segment_bytes", CLEAVE_OPTION_BYTES, "\"128 KiB\"", 8, 1 << 30, nullptr, "bytes",
     "large operations move and reduce this much at a time; the result does not depend on it", 0},
    {"wire", CLEAVE_OPTION_ENUM, "\"auto\"", 0, 0, "auto|plain|packed", "",
     "packed: reductions and gathers of large float32 and bfloat16 tensors send about 0.85 and 0.7 "
     "of their bytes to other machines, by the likeness of their exponents; all bits arrive. auto: "
     "where link_file says less than 0.5 GB/s",
     0},
    {"max_message_bytes", CLEAVE_OPTION_BYTES, "\"1 GiB\"", 1, std::numeric_limits<int>::max(),
     nullptr, "bytes", "transfers above this travel as several MPI messages", 0},
};

constexpr cleave_abi mpi_abi() {
  cleave_abi abi = this_abi();
  set_text(abi.mpi, "Open MPI " CLEAVE_STRINGIFY(OMPI_MAJOR_VERSION));
  return abi;
}

constexpr cleave_plugin kDescriptor = {
    make_identity(CLEAVE_COMMUNICATION, "mpi", "0.1.0", mpi_abi()),
    std::size(kOptions),
    kOptions,
    &create_communicator,
    [](cleave_capabilities* capabilities) { *capabilities = mpi_capabilities(); },
    nullptr};

}  // namespace
}  // namespace cleave::mpi

CLEAVE_EXPORT_PLUGIN(cleave::mpi::kDescriptor)
