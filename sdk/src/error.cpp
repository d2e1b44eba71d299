#include "cleave/error.h"

namespace cleave {

ConfigError::ConfigError(const std::string& message) : std::runtime_error(message) {}
ConfigError::~ConfigError() = default;
RuntimeError::RuntimeError(const std::string& message) : std::runtime_error(message) {}
RuntimeError::~RuntimeError() = default;

void fail_check(const char* file, int line, const char* expression, const std::string& details) {
  throw RuntimeError(message(file, ":", line, ": check failed: ", expression, " ", details));
}

}  // namespace cleave
