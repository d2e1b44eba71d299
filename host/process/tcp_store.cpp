#include "tcp_store.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "cleave/error.h"

namespace cleave {
namespace {

/// The first line; the rest is a stack of LibTorch's own frames.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

struct TcpStore::State {
  c10::intrusive_ptr<c10d::TCPStore> store;
  StoreAddress address;

  std::string key(const std::string& name) const { return address.prefix + name; }
  [[noreturn]] void fail(const std::exception& error) const {
    throw RuntimeError(message("bootstrap: key-value store at ", address.host, ":", address.port,
                               ": ", first_line(error.what()),
                               "; check that rank 0 runs on that host and that the port is free "
                               "and reachable; MASTER_ADDR and MASTER_PORT set others"));
  }
};

TcpStore::TcpStore(const StoreAddress& address, bool is_rank_0, std::chrono::milliseconds timeout)
    : state_(std::make_unique<State>()) {
  state_->address = address;
  c10d::TCPStoreOptions options;
  options.port = address.port;
  options.isServer = is_rank_0 && address.rank_0_serves;
  options.waitWorkers = false;  // the ranks open it when they first need it
  options.timeout = timeout;
  try {
    state_->store = c10::make_intrusive<c10d::TCPStore>(address.host, options);
    state_->store->setTimeout(kConnectTimeout);  // `timeout` was for connecting alone
  } catch (const std::exception& error) {
    state_->fail(error);
  }
}

TcpStore::~TcpStore() = default;

void TcpStore::set(const std::string& key, const std::string& value) {
  try {
    state_->store->set(state_->key(key), std::vector<uint8_t>(value.begin(), value.end()));
  } catch (const std::exception& error) {
    state_->fail(error);
  }
}

void TcpStore::remove(const std::string& key) {
  try {
    state_->store->deleteKey(state_->key(key));
  } catch (const std::exception& error) {
    state_->fail(error);
  }
}

std::optional<std::string> TcpStore::get(const std::string& key,
                                         std::chrono::milliseconds timeout) {
  try {
    if (timeout.count() > 0)
      state_->store->wait({state_->key(key)}, timeout);
    else if (!state_->store->check({state_->key(key)}))
      return std::nullopt;
  } catch (const c10::DistStoreError&) {
    return std::nullopt;  // c10d's time-out of a wait; a lost server is a DistNetworkError
  } catch (const std::exception& error) {
    state_->fail(error);
  }
  try {
    const std::vector<uint8_t> value = state_->store->get(state_->key(key));
    return std::string(value.begin(), value.end());
  } catch (const std::exception& error) {
    state_->fail(error);
  }
}

}  // namespace cleave
