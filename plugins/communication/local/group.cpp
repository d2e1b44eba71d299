#include "group.h"

#include <algorithm>
#include <utility>

#include "cleave/error.h"

namespace cleave::local {
namespace {

// Below this, the last rank to submit does it all: cheaper than waking the others.
constexpr int64_t kInlineBytes = 256 * 1024;

constexpr const char* kAborted = "the communicator was aborted";

bool is_transfer(const cleave_collective& call) {
  return call.op == CLEAVE_SEND || call.op == CLEAVE_RECV;
}

}  // namespace

std::shared_ptr<Group> Group::create(int size) {
  std::shared_ptr<Group> group(new Group(size));
  for (auto& claim : group->claims_) claim = group;
  return group;
}

std::shared_ptr<Group> Group::claim(int rank) {
  const std::lock_guard lock(mutex_);
  return std::exchange(claims_[static_cast<size_t>(rank)], nullptr);
}

void Group::withdraw() {
  const std::lock_guard lock(mutex_);
  for (auto& claim : claims_) claim.reset();
}

std::shared_ptr<Transaction> Group::join_transfer(int rank, const cleave_collective& call) {
  const bool sends = call.op == CLEAVE_SEND;
  const int slot = sends ? 0 : 1;
  const Channel channel =
      sends ? Channel{rank, call.peer, call.tag} : Channel{call.peer, rank, call.tag};
  auto& queue = transfers_[channel];
  // The queue holds either sends without a receive or receives without a send.
  if (queue.empty() || queue.front()->has_arrived(slot))
    queue.push_back(std::make_shared<Transaction>(2));
  const auto transaction = queue.front()->has_arrived(slot) ? queue.back() : queue.front();
  const std::string error = transaction->add(slot, rank, call, 2);
  if (!error.empty()) finish(*transaction, CLEAVE_FAILED, error);
  if (transaction->all_arrived()) queue.pop_front();
  if (queue.empty()) transfers_.erase(channel);
  return transaction;
}

std::shared_ptr<Transaction> Group::join(int rank, const cleave_collective& call) {
  if (is_transfer(call)) return join_transfer(rank, call);
  const int64_t number = sequence_[static_cast<size_t>(rank)]++;
  auto& entry = collectives_[number];
  if (!entry) entry = std::make_shared<Transaction>(size());
  const auto transaction = entry;
  const std::string error = transaction->add(rank, rank, call, size());
  if (!error.empty())
    finish(*transaction, CLEAVE_FAILED, message("call number ", number + 1, ": ", error));
  if (transaction->all_arrived()) collectives_.erase(number);
  return transaction;
}

std::shared_ptr<Transaction> Group::submit(int rank, const cleave_collective& call) {
  std::unique_lock lock(mutex_);
  const auto transaction = join(rank, call);
  if (aborted_) finish(*transaction, CLEAVE_ABORTED, kAborted);
  if (!transaction->all_arrived() || transaction->status() != CLEAVE_PENDING) return transaction;
  const std::string error = transaction->plan();
  if (!error.empty()) {
    finish(*transaction, CLEAVE_FAILED, error);
    return transaction;
  }
  const bool here = transaction->bytes() <= kInlineBytes || transaction->abandoned;
  lock.unlock();
  if (here)
    run(*transaction);
  else
    changed_.notify_all();
  return transaction;
}

void Group::run(Transaction& transaction) {
  while (transaction.run_piece()) {
  }
  const std::lock_guard lock(mutex_);
  if (transaction.pieces_done()) finish(transaction, CLEAVE_OK, "");
}

void Group::finish(Transaction& transaction, cleave_status status, const std::string& reason) {
  if (transaction.status() != CLEAVE_PENDING) return;
  if (status == CLEAVE_OK)
    transaction.complete();
  else
    transaction.fail(status, reason);
  changed_.notify_all();
}

void Group::settle(int rank, Transaction& transaction, const Deadline& deadline) {
  if (transaction.all_arrived() && transaction.pieces_done())
    finish(transaction, CLEAVE_OK, "");
  else if (aborted_)
    finish(transaction, CLEAVE_ABORTED, kAborted);
  else if (deadline.passed())
    finish(transaction, CLEAVE_TIMED_OUT,
           message("rank ", rank, " gave up after ", deadline.timeout_ms, " ms waiting for ",
                   transaction.missing(), "; look at what that rank does instead"));
}

cleave_status Group::poll(int rank, Transaction& transaction, const Deadline& deadline) {
  if (transaction.status() != CLEAVE_PENDING) return transaction.status();
  std::unique_lock lock(mutex_);
  if (transaction.all_arrived() && transaction.pieces_left()) {
    lock.unlock();
    transaction.run_piece();
    lock.lock();
  }
  settle(rank, transaction, deadline);
  return transaction.status();
}

cleave_status Group::wait(int rank, Transaction& transaction, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  while (true) {
    settle(rank, transaction, deadline);
    if (transaction.status() != CLEAVE_PENDING) return transaction.status();
    if (transaction.all_arrived() && transaction.pieces_left()) {
      lock.unlock();
      while (transaction.run_piece()) {
      }
      lock.lock();
    } else if (deadline.timeout_ms > 0) {
      changed_.wait_until(lock, deadline.at);
    } else {
      changed_.wait(lock);
    }
  }
}

std::string Group::reason(const Transaction& transaction) {
  const std::lock_guard lock(mutex_);
  return transaction.reason();
}

void Group::abandon(Transaction& transaction) {
  std::unique_lock lock(mutex_);
  transaction.abandoned = true;
  const bool ready = transaction.all_arrived() && transaction.status() == CLEAVE_PENDING;
  lock.unlock();
  if (ready) run(transaction);
}

void Group::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

void Group::leave(int rank, Transaction& transaction) {
  const std::lock_guard lock(mutex_);
  if (transaction.all_arrived() && transaction.pieces_done()) finish(transaction, CLEAVE_OK, "");
  finish(transaction, CLEAVE_FAILED,
         message("rank ", rank, " left the communicator; look at what that rank reported"));
}

}  // namespace cleave::local
