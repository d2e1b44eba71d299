// c10d::TCPStore behind a narrow header: its own costs half a minute to compile.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "process.h"

namespace cleave {

class TcpStore {
 public:
  /// Ranks start at different times (slow file systems, cold caches).
  static constexpr std::chrono::milliseconds kConnectTimeout{300'000};

  /// Connects within `timeout`, and serves when this is rank 0 and the address leaves that to it.
  /// RuntimeError with host, port and what to look at.
  TcpStore(const StoreAddress& address, bool is_rank_0, std::chrono::milliseconds timeout);
  ~TcpStore();

  void set(const std::string& key, const std::string& value);
  /// Nothing when no rank has set the key in time; 0: by now.
  std::optional<std::string> get(const std::string& key, std::chrono::milliseconds timeout);
  void remove(const std::string& key);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cleave
