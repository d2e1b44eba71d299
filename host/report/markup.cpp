#include "markup.h"

namespace cleave {
namespace {

constexpr std::string_view kUnknown = "\xef\xbf\xbd";  // U+FFFD

/// Bytes of the character that `text` begins with, 0 where it is none that XML has.
size_t character_bytes(std::string_view text) {
  const auto at = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  const unsigned first = at(0);
  if (first < 0x80)
    return (first >= 0x20 && first != 0x7f) || first == '\n' || first == '\t' ? 1 : 0;
  if (first >= 0xc2 && first < 0xe0) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first < 0xf0) {
    const unsigned code = (first & 0xf) << 12 | (at(1) & 0x3f) << 6 | (at(2) & 0x3f);
    const bool is_character = code >= 0x800 && (code < 0xd800 || code > 0xdfff) && code < 0xfffe;
    return follows(1) && follows(2) && is_character ? 3 : 0;
  }
  if (first >= 0xf0 && first < 0xf5) {
    const unsigned begin = (first & 7) << 6 | (at(1) & 0x3f);  // in units of 2^12
    const bool is_character = begin >= 0x10 && begin < 0x110;
    return follows(1) && follows(2) && follows(3) && is_character ? 4 : 0;
  }
  return 0;
}

std::string_view entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return "";
  }
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const size_t length = character_bytes(text);
    if (length == 0)
      escaped += kUnknown;
    else if (const auto name = entity(text.front()); !name.empty())
      escaped += name;
    else
      escaped += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return escaped;
}

}  // namespace cleave
