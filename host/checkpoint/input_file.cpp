#include "checkpoint/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "cleave/error.h"

namespace cleave {

namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw ConfigError(message(path.string(), ": ", what, "; use another checkpoint"));
}

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  // a pipe in the place of a file must not stop us at open()
  file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file_ < 0) fail(path_, message("can't be opened: ", std::generic_category().message(errno)));
  struct stat status;
  const bool is_known = ::fstat(file_, &status) == 0;
  if (!is_known || !S_ISREG(status.st_mode)) {
    ::close(file_);
    fail(path_, "is not a regular file");
  }
  size_bytes_ = status.st_size;
}

InputFile::~InputFile() {
  ::close(file_);
}

void InputFile::read(int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(file_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      fail(path_, message("reading at byte ", offset,
                          " failed: ", std::generic_category().message(errno)));
    if (count == 0) fail(path_, message("ends at byte ", offset, ": it has been cut short"));
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

std::string read_text(const std::filesystem::path& path, int64_t most_bytes) {
  const InputFile file(path);
  if (file.size_bytes() > most_bytes)
    fail(path, message("has ", file.size_bytes(), " bytes, more than ", most_bytes));
  std::string text(static_cast<size_t>(file.size_bytes()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace cleave
