#include "job.h"

#include "cleave/backend.h"
#include "cleave/error.h"

namespace cleave::nccl {

Job::Job(const cleave_collective& call, int ranks) : call_(call), deadline_(call.timeout_ms) {
  if (call.send_counts) send_counts_.assign(call.send_counts, call.send_counts + ranks);
  if (call.recv_counts) recv_counts_.assign(call.recv_counts, call.recv_counts + ranks);
  call_.send_counts = call.send_counts ? send_counts_.data() : nullptr;
  call_.recv_counts = call.recv_counts ? recv_counts_.data() : nullptr;
}

bool Job::settle(cleave_status status) noexcept {
  cleave_status pending = CLEAVE_PENDING;
  return status_.compare_exchange_strong(pending, status, std::memory_order_acq_rel);
}

std::string Job::timeout_text() const {
  std::string text = op_name(call_.op);
  if (call_.op != CLEAVE_BARRIER)
    text += message(" of ", call_.count, " ", dtype_name(call_.dtype));
  if (call_.op == CLEAVE_SEND) text += message(" to rank ", call_.peer);
  if (call_.op == CLEAVE_RECV || call_.op == CLEAVE_BROADCAST)
    text += message(" from rank ", call_.peer);
  return text + message(" was not done within ", deadline_.timeout_ms, " ms");
}

}  // namespace cleave::nccl
