#include "config/quantity.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

TEST(Bytes, AreReadInBinaryAndDecimalUnits) {
  const std::pair<const char*, int64_t> sizes[] = {{"4 KiB", 4096},
                                                   {"4KiB", 4096},
                                                   {"25 MiB", 26214400},
                                                   {"1GB", 1000000000},
                                                   {"1 GiB", 1 << 30},
                                                   {"2 TiB", int64_t{2} << 40},
                                                   {"3 TB", 3000000000000},
                                                   {"7 B", 7},
                                                   {"0 B", 0},
                                                   {"1 kB", 1000},
                                                   {"1 KB", 1000},
                                                   {"1   MB", 1000000},
                                                   {"1.5 KiB", 1536},
                                                   {"1.1 kB", 1100},
                                                   {"0.001 MB", 1000},
                                                   {"9223372036854775807 B", INT64_MAX}};
  for (const auto& [text, bytes] : sizes) EXPECT_EQ(parse_bytes(text), bytes) << text;
}

TEST(Bytes, RefuseEverythingElse) {
  for (const char* text : {"",
                           " ",
                           "4096",
                           "KiB",
                           "4 kib",
                           "4 KIB",
                           "4 Mb",
                           "4 mb",
                           "4 K",
                           "4 M",
                           "4 KiB ",
                           " 4 KiB",
                           "-4 KiB",
                           "+4 KiB",
                           "4,5 MB",
                           "4. MB",
                           ".5 MB",
                           "1e3 B",
                           "0x10 B",
                           "4 KiB 1 B",
                           "4 KiBs",
                           "4\tKiB",
                           "4_0 B",
                           "0.3 B",
                           "1.0001 kB",
                           "0.1 KiB",
                           "9223372036854775808 B",
                           "8388608 TiB",
                           "99999999999999999999999 B",
                           "1.00000000000000000000000 B",
                           "nan B",
                           "4 s"})
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
}

TEST(Duration, IsReadInItsUnits) {
  const std::pair<const char*, int64_t> durations[] = {
      {"200 ms", 200},    {"30 s", 30000}, {"30s", 30000}, {"5 min", 300000}, {"1 h", 3600000},
      {"1.5 h", 5400000}, {"0.25 s", 250}, {"0.001 s", 1}, {"0 ms", 0}};
  for (const auto& [text, ms] : durations) EXPECT_EQ(parse_duration_ms(text), ms) << text;
}

TEST(Duration, RefusesEverythingElse) {
  for (const char* text : {"", "30", "s", "30 sec", "30 S", "5 m", "1 d", "-1 s", "0.5 ms",
                           "0.0001 s", "1 min 30 s", "10 us", "4 KiB", "9223372036854775807 s"})
    EXPECT_EQ(parse_duration_ms(text), std::nullopt) << text;
}

TEST(Bytes, AreShownExactlyInTheLargestUnit) {
  const std::pair<int64_t, const char*> sizes[] = {{0, "0"},
                                                   {1, "1"},
                                                   {1000, "1 kB"},
                                                   {4096, "4 KiB"},
                                                   {4097, "4097"},
                                                   {262144, "256 KiB"},
                                                   {1000000000000, "1 TB"},
                                                   {1 << 30, "1 GiB"},
                                                   {10000, "10 kB"},
                                                   {INT64_MAX, "9223372036854775807"},
                                                   {int64_t{1} << 62, "4194304 TiB"}};
  for (const auto& [bytes, text] : sizes) {
    EXPECT_EQ(format_bytes(bytes), text);
    if (format_bytes(bytes).find(' ') != std::string::npos) {
      EXPECT_EQ(parse_bytes(format_bytes(bytes)), bytes);
    }
  }
}

}  // namespace
}  // namespace cleave
