// Runs what may crash, hang or exit in a child process.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cleave {

using Send = std::function<void(std::string_view)>;

/// What a child process left behind.
struct ChildOutcome {
  std::vector<std::string> sent;  ///< the texts that it handed to `send`, those that came whole
  std::string fate;    ///< "" when `work` returned, else "ended the process by signal 6 (Aborted)",
                       ///< "ended the process with exit code 3", "did not return within 20 s"
  std::string output;  ///< the end of what it wrote to stdout and stderr, in one line
};

/// Calls `work` in a fork of this process and collects what it hands to `send`; the child dies when
/// `work` returns, when it has sent nothing for as long as `limit`, or with this process.
///
/// A fork, and not a new program: LibTorch and the SDK are loaded already, so a child costs
/// milliseconds instead of 0.3 s, and what it sees is what this process would see. The other
/// threads don't exist in the child; glibc makes its heap, its streams and its loader usable there,
/// so `work` may load libraries but must not rely on threads, OpenMP or CUDA. No thread of this
/// process may be inside dlopen meanwhile: the caller sees to that. Throws RuntimeError when there
/// is no child to be had.
ChildOutcome run_in_child(const std::function<void(const Send& send)>& work,
                          std::chrono::milliseconds limit);

}  // namespace cleave
