// The folder that holds a run's checkpoints, one folder a step. A checkpoint appears under its name
// when it is complete, and is gone from it before anything of it is removed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

struct FoundCheckpoint {
  int64_t step;
  std::filesystem::path folder;
};

/// "step-00000050"
std::string step_folder_name(int64_t step);

/// Those of `directory` that have a checkpoint's name, newest first; none when it doesn't exist.
std::vector<FoundCheckpoint> find_checkpoints(const std::filesystem::path& directory);

/// What the pointer file `latest` names: a hint for people and scripts. Nothing when it is missing,
/// empty or names no checkpoint of the directory; `fault` then says so ("" when it is missing).
std::optional<FoundCheckpoint> read_pointer(const std::filesystem::path& directory,
                                            std::string& fault);

/// One process (rank 0) has it, as long as the run.
class CheckpointDirectory {
 public:
  /// Makes the directory where it is missing, takes its lock (a file), removes what a killed run
  /// left half written, and tries out that it can be written. ConfigError when it can't be, or when
  /// another run has the lock.
  explicit CheckpointDirectory(std::filesystem::path directory);
  ~CheckpointDirectory();
  CheckpointDirectory(const CheckpointDirectory&) = delete;
  CheckpointDirectory& operator=(const CheckpointDirectory&) = delete;

  /// Moves the checkpoints of steps after `step` (-1: all), and the pointer where it names one of
  /// them, to a new folder "earlier-<n>" in the directory, so that a run that goes on from `step`
  /// is never mixed with another; nothing when there are none. Returns where they are.
  std::optional<std::filesystem::path> set_aside(int64_t step);

  /// Makes the folder in which a step's files are collected ("step-00000050.tmp"), empty.
  /// RuntimeError when the disk has not `bytes` free, or fails.
  std::filesystem::path begin(int64_t step, int64_t bytes);
  /// Where begin() of that step collects; for ranks that don't have the directory.
  static std::filesystem::path temporary(const std::filesystem::path& directory, int64_t step);
  /// Adds the manifest, syncs, gives the folder its name (a checkpoint of that step that is there
  /// already is replaced), syncs the directory, then the pointer. RuntimeError when the disk fails;
  /// what was there before is then still there.
  std::filesystem::path publish(int64_t step, const std::string& manifest_text);
  /// Removes what begin() made; never throws.
  void discard(int64_t step) noexcept;
  /// Removes all but the newest `keep` checkpoints; those that can't be opened don't count, and are
  /// removed only when older than all that are kept.
  void retain(int keep);

 private:
  std::filesystem::path directory_;
  int lock_ = -1;
};

}  // namespace cleave
