// TensorBoard event file: TFRecord framing around Event messages with scalar summaries, encoded by
// hand (two messages of a handful of fields are not worth a protobuf dependency).
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace cleave {

/// CRC-32C (Castagnoli), as TFRecord uses it before masking.
uint32_t crc32c(std::string_view bytes);

struct Scalar {
  std::string tag;
  double value;  ///< stored as float32, which is what the format has
};

class EventFile {
 public:
  /// Creates {directory}/events.out.tfevents.<unix seconds>.<host>; ConfigError when it can't.
  explicit EventFile(const std::filesystem::path& directory);

  /// One event with all `scalars` of a step; `wall_time` in seconds since 1970.
  void write(int64_t step, double wall_time, const std::vector<Scalar>& scalars);
  const std::filesystem::path& file() const { return file_; }

 private:
  void write_record(std::string_view payload);

  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace cleave
