// An environment that holds what a test gives it.
#pragma once

#include <map>
#include <string>

#include "process/process.h"

namespace cleave {

inline Environment make_environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

/// The message of the error of type Error that `call` throws; "" when it throws none.
template <typename Error, typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace cleave
