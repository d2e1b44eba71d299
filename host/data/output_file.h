// A file that appears under its name only when it is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace cleave {

/// Buffered writer of "<path>.tmp"; publish() renames it to `path`. Without publish() the
/// destructor removes it. After a killed run a leftover "<path>.tmp" is written over by the next
/// one; two runs at once are refused.
class OutputFile {
 public:
  /// Throws ConfigError when the folder is missing or can't be written, or `path` is a folder or a
  /// device. Where it is a link, the file that it leads to is written.
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& temporary_path() const { return temporary_path_; }
  /// Bytes appended so far.
  int64_t size_bytes() const { return written_bytes_ + static_cast<int64_t>(buffer_.size()); }

  /// All of these throw RuntimeError when the disk is full or fails.
  void append(std::string_view bytes);
  /// Reads and replaces bytes that have been appended before.
  void read_back(int64_t offset, std::span<char> bytes);
  void overwrite(int64_t offset, std::string_view bytes);
  /// Begins to move what has been written to the disk, and waits until no more than
  /// `most_pending_bytes` of it are on the way, so that a long file's sync() is short.
  void push(int64_t most_pending_bytes);
  /// Everything is on the disk when it returns.
  void sync();
  /// After sync(); the rename itself is on the disk once the folder is synced.
  void publish();

 private:
  void lock_temporary();
  void flush();
  void write_at(int64_t offset, std::string_view bytes);
  void push_range(int64_t begin, int64_t end, unsigned flags);

  std::filesystem::path path_;
  std::filesystem::path temporary_path_;
  int file_ = -1;
  int64_t written_bytes_ = 0;
  int64_t pushed_bytes_ = 0;   // on the way to the disk, or there
  int64_t arrived_bytes_ = 0;  // of these, there
  std::vector<char> buffer_;
};

/// Makes renames and removals in `folder` durable.
void sync_folder(const std::filesystem::path& folder);

}  // namespace cleave
