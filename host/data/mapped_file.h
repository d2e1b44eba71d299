// A whole file mapped read-only. The kernel pages it in as it is read, so a corpus may be larger
// than memory and all ranks of a machine share one copy.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>

namespace cleave {

/// Not copyable; the mapping lives as long as the object. Readers must stay below size_bytes():
/// an access behind the end of the file is a SIGBUS, not an exception.
class MappedFile {
 public:
  /// Throws ConfigError when the file is missing, not a regular file, not readable or empty.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int64_t size_bytes() const { return size_bytes_; }
  const std::byte* data() const { return data_; }

  /// The value stored at `offset`, which need not be aligned. The caller has checked the bounds.
  template <typename T>
  T load(int64_t offset) const {
    T value;
    std::memcpy(&value, data_ + offset, sizeof(T));
    return value;
  }

 private:
  std::filesystem::path path_;
  int64_t size_bytes_ = 0;
  const std::byte* data_ = nullptr;
};

}  // namespace cleave
