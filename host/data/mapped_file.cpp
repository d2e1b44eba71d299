#include "data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "cleave/error.h"

namespace cleave {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw ConfigError(message(path.string(), ": ", what));
}

/// Checks that `file` is one that can be mapped; returns its size.
int64_t mappable_size(int file, const std::filesystem::path& path) {
  struct stat status;
  if (::fstat(file, &status) != 0) {
    fail(path, message("cannot be read: ", std::strerror(errno), "; check the file system"));
  }
  if (!S_ISREG(status.st_mode)) fail(path, "is not a regular file; give the name of a data file");
  if (status.st_size == 0) fail(path, "is empty (0 bytes); write it again or give another file");
  return status.st_size;
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe by mistake must not hang
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    fail(path_, message("cannot be opened: ", std::strerror(errno),
                        "; check the path and the file's permissions"));
  }
  void* mapping = MAP_FAILED;
  int map_error = 0;
  try {
    size_bytes_ = mappable_size(file, path_);
    mapping = ::mmap(nullptr, static_cast<size_t>(size_bytes_), PROT_READ, MAP_SHARED, file, 0);
    map_error = errno;
  } catch (...) {
    ::close(file);
    throw;
  }
  ::close(file);
  if (mapping == MAP_FAILED) {
    fail(path_, message("cannot be mapped (", size_bytes_, " bytes): ", std::strerror(map_error),
                        "; check the limit on virtual memory (ulimit -v)"));
  }
  data_ = static_cast<const std::byte*>(mapping);
}

MappedFile::~MappedFile() {
  ::munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_bytes_));
}

}  // namespace cleave
