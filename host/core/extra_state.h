// State that strategies add to checkpoints (role ExtraState): who has which part of it, and how it
// is saved and loaded. Some ranks hold equal copies of it, some their own; those are numbered along
// a first dim of the saved tensors.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "core/saved_state.h"
#include "core/trainer.h"

namespace cleave {

/// Bytes of it that `rank` saves, before anything is allocated. `parameters`: of its units.
int64_t extra_saved_bytes(const Strategies& strategies, const std::vector<Parameter*>& parameters,
                          const Mesh& mesh, int rank);

class ExtraStates {
 public:
  /// Collective where there is any: which ranks have which parameter. `context` outlives it.
  explicit ExtraStates(const TrainerContext& context);

  /// Names and shapes of its tensors in a checkpoint, without slices.
  std::vector<StoredTensor> stored_tensors() const;

  /// What this rank saves, once the gradients are allocated.
  std::vector<SavedPart> saved_parts() const;
  /// Fills this rank's state: its own where as many ranks have their own as then; else the sum on
  /// the first of them, zero on the others; zero where the checkpoint has none.
  void load(const CheckpointReader& checkpoint) const;

  /// A line for each kind that the checkpoint does not give back as it was: begins at zero, is
  /// summed, is dropped.
  void print_changes(const Manifest& manifest, std::ostream& out) const;

 private:
  struct Kind {
    std::string strategy;
    ExtraState* role;
    StateKind kind;
    std::string name() const { return strategy + "." + kind.name; }
  };
  /// Of the ranks that have their own values of a parameter's state.
  struct Owners {
    int64_t number;
    int64_t mine;  ///< this rank's place among them; -1: it has nothing
  };
  Owners owners(const Kind& kind, const Parameter& parameter) const;
  at::Tensor state(const Kind& kind, const Parameter& parameter) const;
  void load(const Kind& kind, const Parameter& parameter, const CheckpointReader& checkpoint) const;

  const TrainerContext& context_;
  std::vector<Kind> kinds_;
  std::vector<std::string> holds_;  // by rank: '1' for each parameter of the model that it has
};

}  // namespace cleave
