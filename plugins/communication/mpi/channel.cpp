#include "channel.h"

#include <numeric>

#include "cleave/error.h"
#include "packing.h"

namespace cleave::mpi {
namespace {

// Every MPI has tags up to 2^15 - 1. A tag comes back after this many collectives.
constexpr int64_t kCollectiveTags = 1 << 14;

// Below, a message costs its latency, whatever its bytes.
constexpr int64_t kMinPackedBytes = 4 * 1024;

bool is_packed(const Channel& channel, int peer, cleave_dtype dtype, int64_t bytes) {
  return can_pack(dtype) && bytes >= kMinPackedBytes && channel.packs_to[static_cast<size_t>(peer)];
}

}  // namespace

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw RuntimeError(message(call, ": ", text));
}

std::vector<int> find_world_ranks(MPI_Comm comm, int size) {
  MPI_Group group, world;
  check(MPI_Comm_group(comm, &group), "MPI_Comm_group");
  check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> translated(ranks.size());
  check(MPI_Group_translate_ranks(group, size, ranks.data(), world, translated.data()),
        "MPI_Group_translate_ranks");
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  return translated;
}

int Channel::next_collective_tag() {
  return static_cast<int>(2 * (num_collectives_++ % kCollectiveTags) + 1);
}

int Channel::transfer_tag(int tag) const {
  if (tag > max_tag / 2)
    throw RuntimeError(message("tag ", tag, " exceeds ", max_tag / 2, "; use smaller tags"));
  return 2 * tag;
}

Window::Entry& Window::add(int64_t receive_bytes, int peer) {
  CLEAVE_CHECK(!full(), "window of ", entries_.size(), " requests");
  Entry& entry = entries_[started_++ % entries_.size()];
  entry = {MPI_REQUEST_NULL, receive_bytes, peer};
  return entry;
}

void Window::send(const Channel& channel, const void* data, int64_t bytes, int peer, int tag,
                  cleave_dtype dtype) {
  Entry& entry = add(-1, peer);
  if (is_packed(channel, peer, dtype, bytes)) {
    entry.packed = channel.scratch->take(max_packed_bytes(dtype, bytes));
    bytes = pack(dtype, data, bytes, entry.packed.data());
    data = entry.packed.data();
  }
  check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, channel.comm, &entry.request),
        "MPI_Isend");
}

void Window::receive(const Channel& channel, void* data, int64_t bytes, int peer, int tag,
                     cleave_dtype dtype) {
  Entry& entry = add(bytes, peer);
  if (is_packed(channel, peer, dtype, bytes)) {
    const int64_t most = max_packed_bytes(dtype, bytes);
    entry.packed = channel.scratch->take(most);
    entry.dtype = dtype;
    entry.target = data;
    bytes = most;
    data = entry.packed.data();
  }
  check(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, channel.comm, &entry.request),
        "MPI_Irecv");
}

bool Window::pop() {
  if (empty()) return false;
  Entry& entry = entries_[finished_ % entries_.size()];
  int done = 0;
  MPI_Status status;
  const int code = MPI_Test(&entry.request, &done, &status);
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  if (error_class == MPI_ERR_TRUNCATE)
    throw RuntimeError(message("rank ", entry.peer, " sent more than the ", entry.receive_bytes,
                               " bytes expected; the ranks' calls differ in order or size"));
  check(code, "MPI_Test");
  if (!done) return false;
  ++finished_;
  if (entry.receive_bytes >= 0) settle(entry, status);
  entry.packed = {};
  return true;
}

/// What has arrived is what was expected, and where it belongs.
void Window::settle(Entry& entry, const MPI_Status& status) {
  int bytes = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  const bool is_right = entry.packed ? unpack(entry.dtype, entry.packed.data(), bytes, entry.target,
                                              entry.receive_bytes)
                                     : bytes == entry.receive_bytes;
  if (!is_right)
    throw RuntimeError(message("rank ", entry.peer, " sent ", bytes, entry.packed ? " packed" : "",
                               " bytes, expected ", entry.receive_bytes,
                               "; the ranks' calls differ in order or size"));
}

void Window::cancel() noexcept {
  for (uint64_t i = finished_; i < started_; ++i) {
    Entry& entry = entries_[i % entries_.size()];
    if (entry.receive_bytes >= 0 && entry.request != MPI_REQUEST_NULL) MPI_Cancel(&entry.request);
  }
}

bool Window::drained() noexcept {
  for (; finished_ < started_; ++finished_) {
    Entry& entry = entries_[finished_ % entries_.size()];
    int done = 1;
    if (entry.request != MPI_REQUEST_NULL) MPI_Test(&entry.request, &done, MPI_STATUS_IGNORE);
    if (!done) return false;
  }
  return true;
}

}  // namespace cleave::mpi
