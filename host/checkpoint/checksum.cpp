#include "checkpoint/checksum.h"

#include <xxhash.h>

#include <charconv>
#include <new>

namespace cleave {

struct Checksum::State {
  XXH3_state_t* xxh3 = XXH3_createState();
  ~State() { XXH3_freeState(xxh3); }
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  if (!state_->xxh3) throw std::bad_alloc();
  XXH3_64bits_reset(state_->xxh3);
}

Checksum::~Checksum() = default;

void Checksum::append(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->xxh3, bytes.data(), bytes.size());
}

uint64_t Checksum::value() const {
  return XXH3_64bits_digest(state_->xxh3);
}

uint64_t checksum_of(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

std::string to_hex(uint64_t checksum) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; checksum >>= 4) text[i] = "0123456789abcdef"[checksum & 15];
  return text;
}

std::optional<uint64_t> parse_hex(const std::string& text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc() || rest != end || to_hex(value) != text) return std::nullopt;
  return value;
}

}  // namespace cleave
