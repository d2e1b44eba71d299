#include "core/extra_state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "cleave/error.h"
#include "core/shared_text.h"

namespace cleave {

namespace {

// Where a rank has which values of a parameter's state: all of its box, whatever is cut along the
// kind's axis, because each rank there has its own.
Placement placement_of(const StateKind& kind, const Parameter& parameter) {
  Placement placement = parameter.value_placement;
  placement.piece.reset();
  for (const auto& [axis, how] : parameter.gradient_placement.axes)
    if (how == AxisKind::partial) placement.axes[axis] = AxisKind::independent;
  placement.axes.erase(kind.axis.substr(0, kind.axis.find('.')));
  placement.axes[kind.axis] = AxisKind::independent;
  return placement;
}

// Equal for ranks that have equal values, or different parts of the same.
std::vector<int> owner_key(const Placement& placement, const Mesh& mesh, int rank) {
  std::vector<int> key;
  for (const MeshAxis& axis : mesh.leaf_axes())
    if (placement.kind(axis.name) == AxisKind::independent)
      key.push_back(mesh.coordinate(rank, axis.name));
  return key;
}

// The slice of the parameter, of the owner in the saved tensor's first dim.
Slice at_owner(Slice slice, int64_t owner) {
  slice.box.begin.insert(slice.box.begin.begin(), owner);
  slice.box.end.insert(slice.box.end.begin(), owner + 1);
  return slice;
}

std::vector<std::pair<std::string, StateKind>> kinds_of(const std::string& strategy,
                                                        const ExtraState& role) {
  std::vector<std::pair<std::string, StateKind>> kinds;
  guarded<RuntimeError>(strategy, "state_kinds", "", [&] {
    for (const StateKind& kind : role.state_kinds()) kinds.emplace_back(strategy, kind);
  });
  return kinds;
}

}  // namespace

int64_t extra_saved_bytes(const Strategies& strategies, const std::vector<Parameter*>& parameters,
                          const Mesh& mesh, int rank) {
  int64_t elements = 0;
  for (const auto& [strategy, role] : strategies.extra_states())
    for (const auto& [name, kind] : kinds_of(strategy, *role))
      for (const Parameter* parameter : parameters)
        elements += saved_slice(placement_of(kind, *parameter), mesh, rank).num_elements();
  return elements * static_cast<int64_t>(sizeof(float));
}

ExtraStates::ExtraStates(const TrainerContext& context) : context_(context) {
  for (const auto& [strategy, role] : context.strategies.extra_states())
    for (const auto& [name, kind] : kinds_of(strategy, *role)) kinds_.push_back({name, role, kind});
  if (kinds_.empty()) return;
  std::string mine(context.model.parameters.size(), '0');
  for (const Parameter* parameter : context.parameters) mine[parameter->index] = '1';
  holds_ = gather_texts(context.communicators.control(), mine);
}

ExtraStates::Owners ExtraStates::owners(const Kind& kind, const Parameter& parameter) const {
  const Placement placement = placement_of(kind.kind, parameter);
  std::set<std::vector<int>> keys;
  for (int rank = 0; rank < context_.mesh.world_size(); ++rank)
    if (holds_[rank][parameter.index] == '1')
      keys.insert(owner_key(placement, context_.mesh, rank));
  const auto mine = keys.find(owner_key(placement, context_.mesh, context_.rank));
  const bool has_it = holds_[context_.rank][parameter.index] == '1';
  return {std::ssize(keys), has_it ? std::distance(keys.begin(), mine) : -1};
}

std::vector<StoredTensor> ExtraStates::stored_tensors() const {
  std::vector<StoredTensor> tensors;
  for (const Kind& kind : kinds_)
    for (const Parameter* parameter : context_.model.parameters) {
      std::vector<int64_t> shape = parameter->shape;
      shape.insert(shape.begin(), owners(kind, *parameter).number);
      tensors.push_back({moment_name(kind.name(), *parameter), std::move(shape), {}});
    }
  return tensors;
}

at::Tensor ExtraStates::state(const Kind& kind, const Parameter& parameter) const {
  const at::Tensor values = guarded<RuntimeError>(kind.strategy, "state", parameter.name, [&] {
    return kind.role->state(kind.kind, parameter);
  });
  const int64_t elements = parameter.value_placement.box.num_elements();
  if (!values.defined() || values.scalar_type() != at::kFloat || values.dim() != 1 ||
      values.numel() != elements)
    throw RuntimeError(message("strategy ", kind.strategy, ": state(", kind.kind.name, ") of ",
                               parameter.name, " is no flat float32 tensor of its ", elements,
                               " elements"));
  return values;
}

std::vector<SavedPart> ExtraStates::saved_parts() const {
  std::vector<SavedPart> parts;
  for (const Kind& kind : kinds_)
    for (const Parameter* parameter : context_.parameters) {
      const Slice saved =
          saved_slice(placement_of(kind.kind, *parameter), context_.mesh, context_.rank);
      if (saved.num_elements() == 0) continue;
      parts.push_back({moment_name(kind.name(), *parameter),
                       at_owner(saved, owners(kind, *parameter).mine),
                       state(kind, *parameter).narrow(0, saved.begin, saved.num_elements())});
    }
  return parts;
}

void ExtraStates::load(const CheckpointReader& checkpoint) const {
  for (const Kind& kind : kinds_)
    for (const Parameter* parameter : context_.parameters) load(kind, *parameter, checkpoint);
}

void ExtraStates::load(const Kind& kind, const Parameter& parameter,
                       const CheckpointReader& checkpoint) const {
  const std::string name = moment_name(kind.name(), parameter);
  at::Tensor target = state(kind, parameter);
  target.zero_();
  const StoredTensor* stored = checkpoint.manifest().find(name);
  if (!stored) return;
  const Box& box = parameter.value_placement.box;
  at::Tensor values = at::empty({box.num_elements()}, at::kFloat);
  const auto add = [&](int64_t owner) {
    checkpoint.read(name, at_owner({box, 0, box.num_elements()}, owner), values.data_ptr<float>());
    target.add_(values.to(target.device()));
  };
  const Owners now = owners(kind, parameter);
  if (stored->shape[0] == now.number)
    add(now.mine);
  else if (now.mine == 0)
    for (int64_t owner = 0; owner < stored->shape[0]; ++owner) add(owner);
}

void ExtraStates::print_changes(const Manifest& manifest, std::ostream& out) const {
  std::set<std::string> kept;
  for (const Kind& kind : kinds_) {
    kept.insert(kind.name());
    bool is_missing = false;
    std::string summed;
    for (const Parameter* parameter : context_.model.parameters) {
      const StoredTensor* stored = manifest.find(moment_name(kind.name(), *parameter));
      is_missing |= !stored;
      const int64_t number = owners(kind, *parameter).number;
      if (stored && stored->shape[0] != number && summed.empty())
        summed = message("those of ", stored->shape[0], " ranks are summed onto the first of ",
                         number, " now");
    }
    if (is_missing) out << kind.name() << ": not in the checkpoint, begins at zero\n";
    if (!summed.empty()) out << kind.name() << ": " << summed << "\n";
  }
  std::set<std::string> dropped;
  for (const StoredTensor& tensor : manifest.tensors)
    if (const std::string name = extra_state_of(manifest, tensor.name); !name.empty())
      dropped.insert(name);
  for (const std::string& name : dropped)
    if (!kept.contains(name))
      out << name << ": in the checkpoint, but no strategy of this run keeps it; it is dropped\n";
}

}  // namespace cleave
