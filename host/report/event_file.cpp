#include "event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "cleave/error.h"

namespace cleave {
namespace {

constexpr std::array<uint32_t, 256> make_crc_table() {
  constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's, bits reversed
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

template <typename Integer>
void append_little_endian(std::string& out, Integer value) {
  for (size_t i = 0; i < sizeof(Integer); ++i) {
    out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
  }
}

/// TFRecord stores checksums rotated and shifted, so that a checksum of checksums stays useful.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void append_key(std::string& out, uint32_t field, WireType type) {
  append_varint(out, (field << 3) | type);
}

void append_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  append_key(out, field, kBytes);
  append_varint(out, bytes.size());
  out += bytes;
}

/// Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
std::string begin_event(double wall_time) {
  std::string event;
  append_key(event, 1, kFixed64);
  append_little_endian(event, std::bit_cast<uint64_t>(wall_time));
  return event;
}

/// Summary { repeated Value value = 1; }   Value { string tag = 1; float simple_value = 2; }
void append_scalar(std::string& summary, const Scalar& scalar) {
  std::string value;
  append_bytes(value, 1, scalar.tag);
  append_key(value, 2, kFixed32);
  append_little_endian(value, std::bit_cast<uint32_t>(static_cast<float>(scalar.value)));
  append_bytes(summary, 1, value);
}

std::string event_file_name(int64_t unix_seconds) {
  char host[256] = "localhost";
  ::gethostname(host, sizeof(host) - 1);
  return message("events.out.tfevents.", unix_seconds, ".", host);
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (char byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& directory) {
  using namespace std::chrono;
  const auto now = system_clock::now().time_since_epoch();
  file_ = directory / event_file_name(duration_cast<seconds>(now).count());
  out_.open(file_, std::ios::binary | std::ios::trunc);
  if (!out_) {
    throw ConfigError(message(file_.string(), ": can't be created: ", std::strerror(errno),
                              "; give a folder that can be written as metrics.directory"));
  }
  std::string event = begin_event(duration<double>(now).count());
  append_bytes(event, 3, "brain.Event:2");
  write_record(event);
}

void EventFile::write(int64_t step, double wall_time, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) append_scalar(summary, scalar);
  std::string event = begin_event(wall_time);
  append_key(event, 2, kVarint);
  append_varint(event, static_cast<uint64_t>(step));
  append_bytes(event, 5, summary);
  write_record(event);
}

/// A record: length (8 bytes), its checksum (4), the payload, its checksum (4).
void EventFile::write_record(std::string_view payload) {
  std::string record;
  append_little_endian(record, static_cast<uint64_t>(payload.size()));
  append_little_endian(record, masked_crc(record));
  record += payload;
  append_little_endian(record, masked_crc(payload));
  out_ << record << std::flush;
  if (!out_) {
    throw RuntimeError(message(file_.string(), ": can't be written: ", std::strerror(errno),
                               "; free space on that disk"));
  }
}

}  // namespace cleave
