#include "data/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "cleave/error.h"

namespace cleave {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

[[noreturn]] void fail_disk(const std::filesystem::path& path, std::string_view doing) {
  const char* reason = std::strerror(errno);
  throw RuntimeError(message(path.string(), ": ", doing, " failed: ", reason,
                             "; check the free space and the health of the disk"));
}

// Where a link leads: a rename would take the place of the link. Nor may it take a device's.
std::filesystem::path writable_target(std::filesystem::path path) {
  std::error_code error;
  if (std::filesystem::is_symlink(path, error))
    path = std::filesystem::weakly_canonical(path, error);
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    throw ConfigError(message(path.string(), ": is there and is not a file; name another output"));
  return path;
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path)
    : path_(writable_target(std::move(path))), temporary_path_(path_) {
  temporary_path_ += ".tmp";
  buffer_.reserve(kBufferBytes);
  file_ = ::open(temporary_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) {
    const char* reason = std::strerror(errno);
    throw ConfigError(message(temporary_path_.string(), ": cannot be created: ", reason,
                              "; name a folder that exists and can be written"));
  }
  try {
    lock_temporary();
  } catch (...) {
    ::close(file_);
    throw;
  }
}

void OutputFile::lock_temporary() {
  struct stat opened, named;
  // the second condition: another run renamed the file away between our open and our lock
  const bool is_ours = ::flock(file_, LOCK_EX | LOCK_NB) == 0 && ::fstat(file_, &opened) == 0 &&
                       ::stat(temporary_path_.c_str(), &named) == 0 &&
                       opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
  if (!is_ours) {
    throw ConfigError(message(temporary_path_.string(),
                              ": is being written by another run; wait for it, or choose another "
                              "output"));
  }
  if (::ftruncate(file_, 0) != 0) fail_disk(temporary_path_, "truncating");
}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  ::unlink(temporary_path_.c_str());
  ::close(file_);
}

void OutputFile::append(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes) {
    write_at(written_bytes_, bytes);
    written_bytes_ += static_cast<int64_t>(bytes.size());
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void OutputFile::flush() {
  write_at(written_bytes_, {buffer_.data(), buffer_.size()});
  written_bytes_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
}

void OutputFile::write_at(int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_disk(temporary_path_, message("writing at byte ", offset));
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
}

void OutputFile::read_back(int64_t offset, std::span<char> bytes) {
  CLEAVE_CHECK(offset + static_cast<int64_t>(bytes.size()) <= size_bytes(), "bytes [", offset, ", ",
               offset, " + ", bytes.size(), ") of ", size_bytes());
  flush();
  while (!bytes.empty()) {
    const ssize_t count = ::pread(file_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail_disk(temporary_path_, message("reading at byte ", offset));
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

void OutputFile::overwrite(int64_t offset, std::string_view bytes) {
  CLEAVE_CHECK(offset + static_cast<int64_t>(bytes.size()) <= size_bytes(), "bytes [", offset, ", ",
               offset, " + ", bytes.size(), ") of ", size_bytes());
  flush();
  write_at(offset, bytes);
}

void OutputFile::push(int64_t most_pending_bytes) {
  push_range(pushed_bytes_, written_bytes_, SYNC_FILE_RANGE_WRITE);
  pushed_bytes_ = std::max(pushed_bytes_, written_bytes_);
  const int64_t wanted_bytes = std::max(arrived_bytes_, pushed_bytes_ - most_pending_bytes);
  push_range(arrived_bytes_, wanted_bytes,
             SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  arrived_bytes_ = wanted_bytes;
}

void OutputFile::push_range(int64_t begin, int64_t end, unsigned flags) {
  if (begin >= end || ::sync_file_range(file_, begin, end - begin, flags) == 0) return;
  // a file system that can't do it leaves all to sync(); one whose disk fails says so once
  if (errno == EIO || errno == ENOSPC || errno == EDQUOT) fail_disk(temporary_path_, "writing");
}

void OutputFile::sync() {
  flush();
  if (::fsync(file_) != 0) fail_disk(temporary_path_, "syncing");
}

void OutputFile::publish() {
  CLEAVE_CHECK(buffer_.empty(), path_.string(), " is published before sync");
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    fail_disk(path_, message("renaming ", temporary_path_.string()));
  }
  ::close(file_);
  file_ = -1;
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder.empty() ? "." : folder;
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) fail_disk(path, "opening");
  const int result = ::fsync(file);
  ::close(file);
  if (result != 0) fail_disk(path, "syncing");
}

}  // namespace cleave
