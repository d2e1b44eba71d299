#pragma once

#include <string>
#include <string_view>

namespace cleave {

/// As text between tags or within the quotes of an attribute, in HTML as in XML. What XML can't
/// hold (control characters, what isn't UTF-8) becomes U+FFFD.
std::string escape_markup(std::string_view text);

}  // namespace cleave
