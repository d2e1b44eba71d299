#pragma once

#include <string>

namespace cleave {

/// What the exception that is being handled says, in one line: a c10::Error without its backtrace,
/// the name of the type where it is no std::exception. Call in a catch block.
std::string exception_text();

}  // namespace cleave
