// Errors that cross plugin boundaries. Both types live in libcleave_sdk, so an error thrown in a
// plugin is caught by type in the host. Message form: "<where>: <what, with values>; <what to do>".
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace cleave {

/// The user asked for something that can't be done; found before step 1. The program exits with 2.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(const std::string& message);
  ~ConfigError() override;
};

/// Something failed while running (a peer died, a timeout, non-finite loss). The program exits
/// with 1.
class RuntimeError : public std::runtime_error {
 public:
  explicit RuntimeError(const std::string& message);
  ~RuntimeError() override;
};

/// Joins values into one message: `message("mesh.data = ", 3, " does not divide ", 8)`.
template <typename... Parts>
std::string message(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

[[noreturn]] void fail_check(const char* file, int line, const char* expression,
                             const std::string& details);

}  // namespace cleave

/// For invariants of our own code: throws RuntimeError with the C++ line. Never for user errors.
#define CLEAVE_CHECK(condition, ...)                                                        \
  do {                                                                                      \
    if (!(condition))                                                                       \
      ::cleave::fail_check(__FILE__, __LINE__, #condition, ::cleave::message(__VA_ARGS__)); \
  } while (false)
