#include "cleave/options.h"

#include "cleave/error.h"

namespace cleave {

const cleave_option_value& Options::find(std::string_view key) const {
  for (uint32_t i = 0; i < options_->count; ++i)
    if (key == options_->values[i].key) return options_->values[i];
  throw RuntimeError(message("option ", key, " is not in the plugin's option table; declare it"));
}

bool Options::flag(std::string_view key) const { return find(key).integer != 0; }
int64_t Options::integer(std::string_view key) const { return find(key).integer; }
double Options::number(std::string_view key) const { return find(key).number; }
std::string_view Options::text(std::string_view key) const { return find(key).text; }

}  // namespace cleave
