// Copies for another core's eyes: past this core's cache, since memory hands data to another core
// faster than this core's cache does where the two share no cache.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace cleave::mpi {

/// As memcpy; what is stored is visible to whom a later release store is.
inline void stream_copy(void* to, const void* from, int64_t bytes) {
#if defined(__SSE2__)
  auto* target = static_cast<char*>(to);
  const auto* source = static_cast<const char*>(from);
  const auto misaligned = static_cast<int64_t>(reinterpret_cast<uintptr_t>(target) % 16);
  const int64_t head = misaligned == 0 ? 0 : 16 - misaligned;
  if (bytes >= head + 64) {
    std::memcpy(target, source, static_cast<size_t>(head));
    int64_t at = head;
    for (; at + 64 <= bytes; at += 64)
      for (int64_t part = 0; part < 64; part += 16)
        _mm_stream_si128(reinterpret_cast<__m128i*>(target + at + part),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + at + part)));
    std::memcpy(target + at, source + at, static_cast<size_t>(bytes - at));
    _mm_sfence();  // streamed stores are ordered by nothing else
    return;
  }
#endif
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace cleave::mpi
