#include "checkpoint/checkpoint_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/input_file.h"
#include "cleave/error.h"
#include "data/output_file.h"

namespace cleave {

namespace {

namespace fs = std::filesystem;

constexpr char kLockName[] = ".lock";
constexpr char kProbeName[] = ".write-test";
constexpr char kPointerName[] = "latest";
constexpr std::string_view kPrefix = "step-";
constexpr size_t kDigits = 8;
// Beside a step's name: being written; whole, but about to be replaced; being removed.
constexpr char kTemporary[] = ".tmp";
constexpr char kReplaced[] = ".old";
constexpr char kRemoved[] = ".removed";

constexpr int64_t kSpareBytes = int64_t{1} << 20;
constexpr double kSpareShare = 1.05;

std::optional<int64_t> parse_step(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  int64_t step = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || step < 0 || step_folder_name(step) != name) return std::nullopt;
  return step;
}

/// The path without `suffix`, when it is a step's with it.
std::optional<fs::path> step_before(const fs::path& path, std::string_view suffix) {
  const std::string name = path.filename().string();
  if (!name.ends_with(suffix)) return std::nullopt;
  const std::string step = name.substr(0, name.size() - suffix.size());
  if (!parse_step(step)) return std::nullopt;
  return path.parent_path() / step;
}

fs::path with(fs::path path, const char* suffix) {
  return path += suffix;
}

[[noreturn]] void fail_disk(const fs::path& path, const std::string& doing,
                            const std::error_code& error) {
  throw RuntimeError(message(path.string(), ": ", doing, " failed: ", error.message(),
                             "; check the disk and the folder's permissions"));
}

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw ConfigError(message(path.string(), ": ", what,
                            "; name a folder that can be written in checkpoint.directory"));
}

void rename_entry(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail_disk(from, message("renaming to ", to.filename().string()), error);
}

void remove_entry(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail_disk(path, "removing", error);
}

/// It loses its name first, so that no half of it is ever taken for a checkpoint.
void remove_step(const fs::path& path, const fs::path& step) {
  const fs::path removed = with(step, kRemoved);
  remove_entry(removed);
  rename_entry(path, removed);
  sync_folder(step.parent_path());
  remove_entry(removed);
}

std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    entries.push_back(it->path());
  if (error && error != std::errc::no_such_file_or_directory)
    throw ConfigError(message(directory.string(), ": can't be read: ", error.message(),
                              "; give a directory of checkpoints"));
  return entries;
}

/// After a kill at any moment: what had been complete is complete again, the rest is gone.
void recover(const fs::path& directory) {
  for (const fs::path& entry : entries_of(directory)) {
    if (step_before(entry, kTemporary) || step_before(entry, kRemoved)) {
      remove_entry(entry);
    } else if (const auto step = step_before(entry, kReplaced)) {
      std::error_code ignored;
      if (fs::exists(*step, ignored))
        remove_step(entry, *step);
      else
        rename_entry(entry, *step);
    }
  }
  remove_entry(directory / with(kPointerName, kTemporary));
  remove_entry(directory / kProbeName);
}

int lock(const fs::path& directory) {
  const fs::path path = directory / kLockName;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0)
    refuse(directory, message("can't be written: ", std::generic_category().message(errno)));
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  const int reason = errno;
  ::close(file);
  if (reason == EWOULDBLOCK)
    throw ConfigError(message(directory.string(), ": another run saves its checkpoints there; ",
                              "wait for its end, or name another checkpoint.directory"));
  refuse(directory, message("can't be locked: ", std::generic_category().message(reason)));
}

/// The lock's file may be there, and writable, where nothing else can be.
void try_writing(const fs::path& directory) {
  const fs::path path = directory / kProbeName;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  const bool is_written = file >= 0 && ::write(file, "x", 1) == 1 && ::fsync(file) == 0;
  const int reason = errno;
  if (file >= 0) ::close(file);
  ::unlink(path.c_str());
  if (!is_written)
    refuse(directory, message("can't be written: ", std::generic_category().message(reason)));
}

void make_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) refuse(directory, message("can't be made: ", error.message()));
}

void write_file(const fs::path& path, const std::string& text) {
  OutputFile file(path);
  file.append(text);
  file.sync();
  file.publish();
}

/// A ConfigError of the files below means that the disk failed: the config was fine at the start.
template <typename Action>
void at_run_time(const Action& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    throw RuntimeError(error.what());
  }
}

bool opens(const fs::path& folder) {
  try {
    CheckpointReader reader(folder);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

}  // namespace

std::string step_folder_name(int64_t step) {
  const std::string number = std::to_string(step);
  return message(kPrefix, std::string(kDigits - std::min(kDigits, number.size()), '0'), number);
}

std::vector<FoundCheckpoint> find_checkpoints(const fs::path& directory) {
  std::vector<FoundCheckpoint> found;
  for (const fs::path& entry : entries_of(directory)) {
    const auto step = parse_step(entry.filename().string());
    std::error_code ignored;
    if (step && fs::is_directory(entry, ignored)) found.push_back({*step, entry});
  }
  std::sort(found.begin(), found.end(),
            [](const FoundCheckpoint& a, const FoundCheckpoint& b) { return a.step > b.step; });
  return found;
}

std::optional<FoundCheckpoint> read_pointer(const fs::path& directory, std::string& fault) {
  const fs::path path = directory / kPointerName;
  fault.clear();
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  try {
    std::string name = read_text(path, 256);
    if (name.ends_with('\n')) name.pop_back();
    const auto step = parse_step(name);
    if (step && fs::is_directory(directory / name, error))
      return FoundCheckpoint{*step, directory / name};
    fault = message(path.string(), ": ",
                    name.empty() ? "is empty" : message("names no checkpoint: ", quote(name)));
  } catch (const ConfigError& unreadable) {
    fault = unreadable.what();
  }
  return std::nullopt;
}

CheckpointDirectory::CheckpointDirectory(fs::path directory) : directory_(std::move(directory)) {
  make_directory(directory_);
  lock_ = lock(directory_);
  try {
    try_writing(directory_);
    recover(directory_);
  } catch (const RuntimeError& error) {
    ::close(lock_);
    throw ConfigError(error.what());
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

CheckpointDirectory::~CheckpointDirectory() {
  ::close(lock_);
}

// The oldest first: after a kill in between, the newest is still where a resumed run looks.
std::optional<fs::path> CheckpointDirectory::set_aside(int64_t step) {
  std::vector<FoundCheckpoint> later = find_checkpoints(directory_);
  std::erase_if(later, [&](const FoundCheckpoint& checkpoint) { return checkpoint.step <= step; });
  if (later.empty()) return std::nullopt;
  std::error_code error;
  fs::path target;
  for (int n = 1; target.empty() || fs::exists(target, error); ++n)
    target = directory_ / message("earlier-", n);
  fs::create_directory(target, error);
  if (error) fail_disk(target, "making", error);
  std::string fault;
  const auto pointed = read_pointer(directory_, fault);
  if (pointed && pointed->step > step)
    rename_entry(directory_ / kPointerName, target / kPointerName);
  for (size_t i = later.size(); i-- > 0;)
    rename_entry(later[i].folder, target / later[i].folder.filename());
  sync_folder(target);
  sync_folder(directory_);
  return target;
}

fs::path CheckpointDirectory::temporary(const fs::path& directory, int64_t step) {
  return directory / with(step_folder_name(step), kTemporary);
}

fs::path CheckpointDirectory::begin(int64_t step, int64_t bytes) {
  struct statvfs space;
  if (::statvfs(directory_.c_str(), &space) != 0)
    fail_disk(directory_, "looking for free space", {errno, std::generic_category()});
  const double free_bytes =
      static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  const double wanted_bytes = static_cast<double>(bytes) * kSpareShare + kSpareBytes;
  const bool is_known = space.f_blocks > 0;  // some file systems don't tell
  if (is_known && free_bytes < wanted_bytes)
    throw RuntimeError(message(directory_.string(), ": the checkpoint of step ", step, " needs ",
                               static_cast<int64_t>(wanted_bytes) >> 20, " MiB, but ",
                               static_cast<int64_t>(free_bytes) >> 20,
                               " MiB are free; free some space, or lower checkpoint.keep"));
  fs::path folder = temporary(directory_, step);
  remove_entry(folder);
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) fail_disk(folder, "making", error);
  return folder;
}

fs::path CheckpointDirectory::publish(int64_t step, const std::string& manifest_text) {
  const fs::path collected = temporary(directory_, step);
  fs::path folder = directory_ / step_folder_name(step);
  const fs::path replaced = with(folder, kReplaced);
  at_run_time([&] { write_file(collected / kManifestName, manifest_text); });
  sync_folder(collected);
  std::error_code ignored;
  const bool replaces = fs::exists(folder, ignored);
  if (replaces) rename_entry(folder, replaced);
  try {
    rename_entry(collected, folder);
  } catch (const RuntimeError&) {
    if (replaces) rename_entry(replaced, folder);
    throw;
  }
  sync_folder(directory_);
  if (replaces) remove_step(replaced, folder);
  at_run_time([&] { write_file(directory_ / kPointerName, step_folder_name(step) + '\n'); });
  sync_folder(directory_);
  return folder;
}

void CheckpointDirectory::discard(int64_t step) noexcept {
  std::error_code ignored;
  fs::remove_all(temporary(directory_, step), ignored);
}

void CheckpointDirectory::retain(int keep) {
  int kept = 0;
  for (const FoundCheckpoint& checkpoint : find_checkpoints(directory_)) {
    if (kept >= keep)
      remove_step(checkpoint.folder, checkpoint.folder);
    else if (opens(checkpoint.folder))
      ++kept;
  }
}

}  // namespace cleave
