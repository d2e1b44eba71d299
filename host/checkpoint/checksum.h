// xxh3 of bytes that come in pieces, and its text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cleave {

class Checksum {
 public:
  Checksum();
  ~Checksum();
  void append(std::span<const std::byte> bytes);
  /// Of what has been appended so far.
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

uint64_t checksum_of(std::string_view text);

/// 16 hexadecimal digits, and back; nothing when the text is anything else.
std::string to_hex(uint64_t checksum);
std::optional<uint64_t> parse_hex(const std::string& text);

}  // namespace cleave
