// A file that is read in places. Not mapped: one that is cut short meanwhile is an error that has a
// text, not a signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace cleave {

class InputFile {
 public:
  /// ConfigError when it is missing, no regular file, or can't be read.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// When it was opened.
  int64_t size_bytes() const { return size_bytes_; }
  /// Fills `bytes` from `offset` on. ConfigError when the disk fails or the file ends before.
  void read(int64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  int file_ = -1;
  int64_t size_bytes_ = 0;
};

/// All of a file. ConfigError when it has more than `most_bytes`.
std::string read_text(const std::filesystem::path& path, int64_t most_bytes);

}  // namespace cleave
