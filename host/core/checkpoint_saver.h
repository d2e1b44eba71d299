// Saving while training goes on. A rank copies what it saves, a thread of its own writes the copy;
// what the ranks have to agree on they exchange on their main threads at the end of a step:
//
//   all ranks: copy, write the rank's file      -> all have written: rank 0: manifest, rename,
//   prune
//                                               -> one has not: rank 0 removes the unfinished
//                                               folder
//
// One save is in flight. A rank's memory grows by the copy: 12 bytes x what it saves, which is
// parameters / ranks wherever equal copies share the work (saved_slice), and what strategies add.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/shard_file.h"
#include "core/saved_state.h"
#include "core/trainer.h"

namespace cleave {

class CheckpointSaver {
 public:
  /// Collective. `directory`: rank 0's. `resumed`: what the run goes on from; nullptr: from the
  /// beginning. Checkpoints in the directory that it does not go on from are moved aside.
  /// `console` gets rank 0's lines.
  CheckpointSaver(const TrainerContext& context, const Optimizer& optimizer,
                  std::unique_ptr<CheckpointDirectory> directory, const CheckpointReader* resumed,
                  std::ostream& console);
  /// Stops writing what is in flight.
  ~CheckpointSaver();

  /// Collective, after `step` updates: goes on with what is in flight, saves when that is due, or
  /// when any rank has `stop_requested`; then returns true. RuntimeError on all ranks when a save
  /// failed and checkpoint.on_failure says to stop.
  bool after_step(int64_t step, bool stop_requested);
  /// Collective: returns when nothing is in flight.
  void finish();
  /// RuntimeError on all ranks when the last save failed: what the run did is not saved.
  void require_saved() const;

  /// How long the last after_step() kept this rank from training; nothing when no save was begun or
  /// in flight.
  std::optional<double> stall_ms() const { return stall_ms_; }

 private:
  enum class Stage { idle, files, manifest };
  struct Save {
    int64_t step;
    std::chrono::steady_clock::time_point begin;
    int64_t bytes = 0;
  };

  void set_aside(const CheckpointReader* resumed);
  void save(int64_t step);
  bool begin_folder(int64_t step);
  void copy_parts();
  bool is_working() const;
  bool advance(bool stop_requested);
  void conclude_files();
  void conclude_manifest();
  void fail(const std::string& reason);

  const TrainerContext& context_;
  const Optimizer& optimizer_;
  std::ostream& console_;
  const CheckpointConfig& config_;
  std::unique_ptr<CheckpointDirectory> directory_;  // rank 0's
  std::vector<SavedPart> parts_;
  at::Tensor copy_;  // of all parts, one after the other; undefined where they are written directly
  std::vector<ShardPart> written_parts_;

  Manifest manifest_;  // without what a save adds
  Stage stage_ = Stage::idle;
  Save current_{};
  int64_t last_saved_;
  std::string last_failure_;
  std::atomic<bool> cancelled_ = false;
  std::future<std::string> job_;  // of this rank; its text is for rank 0, or for all
  std::optional<double> stall_ms_;
};

}  // namespace cleave
