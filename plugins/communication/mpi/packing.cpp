#include "packing.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cleave/backend.h"

// A copy of each loop per instruction set, chosen when the library is loaded.
#if defined(__x86_64__) && defined(__GNUC__)
#define CLEAVE_VECTORISED __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define CLEAVE_VECTORISED
#endif

namespace cleave::mpi {
namespace {

constexpr int kBlock = static_cast<int>(kPackingBlock);
constexpr int kTwoBits = kBlock / 4;  // bytes of the codes' lower two bits
constexpr int kOneBit = kBlock / 8;   // of their upper one
constexpr int kCodeBytes = kTwoBits + kOneBit;
constexpr uint8_t kException = 7;
constexpr uint8_t kPlain = 255;  // instead of the number of exceptions
constexpr int kHeader = 2;

/// What a block is taken apart into, but for its codes.
struct Float32 {
  static constexpr int kRestBytes = 3 * kBlock;
  using Word = uint32_t;
};
struct Bfloat16 {
  static constexpr int kRestBytes = kBlock;
  using Word = uint16_t;
};

CLEAVE_VECTORISED void exponents_of(const uint32_t* values, uint8_t* exponents) {
  for (int i = 0; i < kBlock; ++i) exponents[i] = static_cast<uint8_t>(values[i] >> 23);
}

CLEAVE_VECTORISED void exponents_of(const uint16_t* values, uint8_t* exponents) {
  for (int i = 0; i < kBlock; ++i) exponents[i] = static_cast<uint8_t>(values[i] >> 7);
}

/// 16 bits of the mantissa, then its other 7 and the sign.
CLEAVE_VECTORISED void rest_of(const uint32_t* values, uint8_t* rest) {
  uint16_t low[kBlock];
  for (int i = 0; i < kBlock; ++i) low[i] = static_cast<uint16_t>(values[i]);
  std::memcpy(rest, low, sizeof low);
  for (int i = 0; i < kBlock; ++i)
    rest[2 * kBlock + i] = static_cast<uint8_t>((values[i] >> 16 & 0x7f) | (values[i] >> 31 << 7));
}

CLEAVE_VECTORISED void rest_of(const uint16_t* values, uint8_t* rest) {
  for (int i = 0; i < kBlock; ++i)
    rest[i] = static_cast<uint8_t>((values[i] & 0x7f) | (values[i] >> 15 << 7));
}

CLEAVE_VECTORISED void join(const uint8_t* rest, const uint8_t* exponents, uint32_t* values) {
  uint16_t low[kBlock];
  std::memcpy(low, rest, sizeof low);
  for (int i = 0; i < kBlock; ++i) {
    const uint32_t high = rest[2 * kBlock + i];
    values[i] = low[i] | (high & 0x7f) << 16 | uint32_t{exponents[i]} << 23 | high >> 7 << 31;
  }
}

CLEAVE_VECTORISED void join(const uint8_t* rest, const uint8_t* exponents, uint16_t* values) {
  for (int i = 0; i < kBlock; ++i)
    values[i] = static_cast<uint16_t>((rest[i] & 0x7f) | exponents[i] << 7 | rest[i] >> 7 << 15);
}

CLEAVE_VECTORISED uint8_t largest_of(const uint8_t* exponents) {
  uint8_t largest = 0;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, exponents[i]);
  return largest;
}

/// Binary places below the largest.
CLEAVE_VECTORISED void codes_of(const uint8_t* exponents, uint8_t largest, uint8_t* codes) {
  for (int i = 0; i < kBlock; ++i)
    codes[i] = std::min<uint8_t>(static_cast<uint8_t>(largest - exponents[i]), kException);
}

CLEAVE_VECTORISED void codes_to_bits(const uint8_t* codes, uint8_t* bits) {
  for (int i = 0; i < kTwoBits; ++i)
    bits[i] = static_cast<uint8_t>((codes[i] & 3) | (codes[i + kTwoBits] & 3) << 2 |
                                   (codes[i + 2 * kTwoBits] & 3) << 4 |
                                   (codes[i + 3 * kTwoBits] & 3) << 6);
  for (int i = 0; i < kOneBit; ++i) {
    unsigned byte = 0;
    for (int k = 0; k < 8; ++k) byte |= static_cast<unsigned>(codes[i + k * kOneBit] >> 2) << k;
    bits[kTwoBits + i] = static_cast<uint8_t>(byte);
  }
}

CLEAVE_VECTORISED void bits_to_codes(const uint8_t* bits, uint8_t* codes) {
  for (int k = 0; k < 4; ++k)
    for (int i = 0; i < kTwoBits; ++i)
      codes[k * kTwoBits + i] = static_cast<uint8_t>(bits[i] >> 2 * k & 3);
  for (int k = 0; k < 8; ++k)
    for (int i = 0; i < kOneBit; ++i)
      codes[k * kOneBit + i] |= static_cast<uint8_t>((bits[kTwoBits + i] >> k & 1) << 2);
}

CLEAVE_VECTORISED void exponents_from(const uint8_t* codes, uint8_t largest, uint8_t* exponents) {
  for (int i = 0; i < kBlock; ++i) exponents[i] = static_cast<uint8_t>(largest - codes[i]);
}

/// Calls `visit` with the place of each exception, in order.
template <class Visit>
void each_exception(const uint8_t* codes, const Visit& visit) {
  constexpr uint64_t kLowBits = 0x0101010101010101;
  for (int word = 0; word < kBlock; word += 8) {
    uint64_t eight;
    std::memcpy(&eight, codes + word, sizeof eight);
    for (uint64_t found = eight & eight >> 1 & eight >> 2 & kLowBits; found != 0;
         found &= found - 1)
      visit(word + std::countr_zero(found) / 8);
  }
}

template <class Format>
constexpr int kMaxExceptions = static_cast<int>(sizeof(typename Format::Word)) * kBlock - kCodeBytes
                               - Format::kRestBytes - 1;

template <class Format>
std::byte* pack_block(const typename Format::Word* values, std::byte* packed) {
  auto* out = reinterpret_cast<uint8_t*>(packed);
  uint8_t exponents[kBlock], codes[kBlock], exceptions[kBlock];
  exponents_of(values, exponents);
  const uint8_t largest = largest_of(exponents);
  codes_of(exponents, largest, codes);
  int count = 0;
  each_exception(codes, [&](int place) { exceptions[count++] = exponents[place]; });
  out[0] = largest;
  if (count > kMaxExceptions<Format>) {
    out[1] = kPlain;
    std::memcpy(out + kHeader, values, sizeof *values * kBlock);
    return packed + kHeader + sizeof *values * kBlock;
  }
  out[1] = static_cast<uint8_t>(count);
  codes_to_bits(codes, out + kHeader);
  rest_of(values, out + kHeader + kCodeBytes);
  std::memcpy(out + kHeader + kCodeBytes + Format::kRestBytes, exceptions,
              static_cast<size_t>(count));
  return packed + kHeader + kCodeBytes + Format::kRestBytes + count;
}

/// Where the next block begins; nullptr when this one is not all there.
template <class Format>
const std::byte* unpack_block(const std::byte* packed, const std::byte* end,
                              typename Format::Word* values) {
  if (end - packed < kHeader) return nullptr;
  const auto* in = reinterpret_cast<const uint8_t*>(packed);
  const bool is_plain = in[1] == kPlain;
  const auto content = is_plain ? static_cast<int64_t>(sizeof *values) * kBlock
                                : kCodeBytes + Format::kRestBytes + in[1];
  if (end - packed < kHeader + content) return nullptr;
  if (is_plain) {
    std::memcpy(values, in + kHeader, sizeof *values * kBlock);
  } else {
    uint8_t exponents[kBlock], codes[kBlock];
    bits_to_codes(in + kHeader, codes);
    exponents_from(codes, in[0], exponents);
    const uint8_t* exceptions = in + kHeader + kCodeBytes + Format::kRestBytes;
    int count = 0;
    each_exception(codes, [&](int place) {
      if (count < in[1]) exponents[place] = exceptions[count];
      ++count;
    });
    if (count != in[1]) return nullptr;
    join(in + kHeader + kCodeBytes, exponents, values);
  }
  return packed + kHeader + content;
}

template <class Format>
int64_t pack_values(const void* values, int64_t bytes, std::byte* packed) {
  const auto* from = static_cast<const typename Format::Word*>(values);
  const int64_t count = bytes / static_cast<int64_t>(sizeof *from);
  std::byte* to = packed;
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) to = pack_block<Format>(from + i, to);
  const auto tail = static_cast<size_t>(count - i) * sizeof *from;
  if (tail > 0) std::memcpy(to, from + i, tail);
  return to - packed + static_cast<int64_t>(tail);
}

template <class Format>
bool unpack_values(const std::byte* packed, int64_t packed_bytes, void* values, int64_t bytes) {
  auto* to = static_cast<typename Format::Word*>(values);
  const int64_t count = bytes / static_cast<int64_t>(sizeof *to);
  const std::byte* end = packed + packed_bytes;
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock)
    if (packed = unpack_block<Format>(packed, end, to + i); packed == nullptr) return false;
  const auto tail = static_cast<size_t>(count - i) * sizeof *to;
  if (end - packed != static_cast<int64_t>(tail)) return false;
  if (tail > 0) std::memcpy(to + i, packed, tail);
  return true;
}

}  // namespace

bool can_pack(cleave_dtype dtype) {
  return dtype == CLEAVE_FLOAT32 || dtype == CLEAVE_BFLOAT16;
}

int64_t max_packed_bytes(cleave_dtype dtype, int64_t bytes) {
  return bytes + kHeader * (bytes / dtype_bytes(dtype) / kBlock);
}

int64_t pack(cleave_dtype dtype, const void* values, int64_t bytes, std::byte* packed) {
  return dtype == CLEAVE_FLOAT32 ? pack_values<Float32>(values, bytes, packed)
                                 : pack_values<Bfloat16>(values, bytes, packed);
}

bool unpack(cleave_dtype dtype, const std::byte* packed, int64_t packed_bytes, void* values,
            int64_t bytes) {
  return dtype == CLEAVE_FLOAT32 ? unpack_values<Float32>(packed, packed_bytes, values, bytes)
                                 : unpack_values<Bfloat16>(packed, packed_bytes, values, bytes);
}

}  // namespace cleave::mpi
