// Between toml++ nodes, our values and TOML text. Only this folder's sources include toml++.
#pragma once

#include <toml++/toml.h>

#include <string>

#include "value.h"

namespace cleave {

Value value_of(const toml::node& node);
/// Shortest text that reads back to the same double, always recognisable as a float.
std::string format_double(double number);

}  // namespace cleave
