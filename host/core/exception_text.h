#pragma once

#include <string>

namespace cleave {

/// What the exception that is being handled says, in one line: a c10::Error without its backtrace,
/// the name of the type where it is no std::exception. Call in a catch block.
std::string exception_text();

/// The text of what `call` throws; "" when it throws nothing.
template <typename Call>
std::string fault_of(const Call& call) {
  try {
    call();
    return "";
  } catch (...) {
    return exception_text();
  }
}

}  // namespace cleave
