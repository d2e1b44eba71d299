// Sizes and durations as people write them: "25 MiB", "1.5 GB", "200 ms".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cleave {

/// "4 KiB", "4KiB", "1.5 GB": a decimal number and B, kB or KB, MB, GB, TB (powers of 1000), KiB,
/// MiB, GiB, TiB (powers of 1024). Nothing: not of this form, not whole bytes, 2^63 or more.
std::optional<int64_t> parse_bytes(std::string_view text);

/// "200 ms", "30 s", "5 min", "1.5 h", in milliseconds. Nothing: not of this form, not whole
/// milliseconds, 2^63 or more.
std::optional<int64_t> parse_duration_ms(std::string_view text);

/// Milliseconds of "ms", "s", "min" or "h"; nothing for other units.
std::optional<int64_t> milliseconds_of_unit(std::string_view unit);

/// In the largest unit that is exact: "256 KiB", "1 TB", "4097".
std::string format_bytes(int64_t bytes);

}  // namespace cleave
