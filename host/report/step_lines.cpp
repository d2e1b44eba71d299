#include "step_lines.h"

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

#include "cleave/error.h"

namespace cleave {
namespace {

constexpr std::string_view kPrefix = "{\"step\":";

/// INT64_MAX for a line that is none of a step, or not whole.
int64_t step_of(std::string_view line) {
  int64_t step = INT64_MAX;
  if (line.starts_with(kPrefix) && line.ends_with('}'))
    std::from_chars(line.data() + kPrefix.size(), line.data() + line.size(), step);
  return step;
}

}  // namespace

void keep_lines_until(const std::filesystem::path& file, int64_t step) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return;
  std::ifstream in(file, std::ios::binary);
  uintmax_t kept_bytes = 0;
  for (std::string line; std::getline(in, line) && !in.eof() && step_of(line) <= step;)
    kept_bytes += line.size() + 1;
  std::filesystem::resize_file(file, kept_bytes, error);
  if (error)
    throw RuntimeError(
        message(file.string(), ": can't be cut: ", error.message(), "; make it writable"));
}

}  // namespace cleave
