#include "core/exception_text.h"

#include <c10/util/Exception.h>
#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <typeinfo>

namespace cleave {

namespace {

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

// "a thrown int"
std::string type_text() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (!type) return "an exception of another language";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), &std::free);
  return std::string("a thrown ") + (status == 0 ? name.get() : type->name());
}

}  // namespace

std::string exception_text() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return one_line(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return one_line(error.what());
  } catch (...) {
    return type_text();
  }
}

}  // namespace cleave
