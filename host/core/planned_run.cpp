#include "core/planned_run.h"

#include <algorithm>
#include <set>

#include "core/communicators.h"
#include "core/device.h"
#include "core/extra_state.h"
#include "core/gather.h"
#include "core/layout.h"
#include "core/memory_plan.h"
#include "core/partial_gradients.h"
#include "core/saved_state.h"

namespace cleave {

namespace {

constexpr char kPipeline[] = "pipeline";

// Each micro-batch's forward, then its backward.
std::vector<std::vector<Action>> one_by_one(int64_t num_micro_batches) {
  std::vector<Action> actions;
  for (int m = 0; m < num_micro_batches; ++m)
    for (Action::Kind kind : {Action::Kind::forward, Action::Kind::backward})
      actions.push_back({kind, 0, m});
  return {actions};
}

// Weights alone are no visit: they need no values and no activations of others.
std::vector<Visit> visits_of(const std::vector<Action>& actions,
                             const std::vector<UnitInfo>& units) {
  std::vector<Visit> visits;
  for (const Action& action : actions) {
    std::vector<Visit> run;
    const bool is_forward = action.kind == Action::Kind::forward;
    if (action.kind == Action::Kind::backward_weight) continue;
    for (const UnitInfo& unit : units)
      if (unit.chunk == action.chunk)
        run.push_back({&unit, action.micro_batch, is_forward ? Phase::forward : Phase::backward});
    if (!is_forward) std::reverse(run.begin(), run.end());
    visits.insert(visits.end(), run.begin(), run.end());
  }
  return visits;
}

void append(std::vector<MemoryItem>& items, const std::vector<MemoryItem>& more) {
  items.insert(items.end(), more.begin(), more.end());
}

// Nothing of a tensor that other pipeline ranks hold; of a tied one, a term of its gradient.
void place(Parameter& parameter, bool is_here, bool is_shared) {
  for (Placement* placement :
       {&parameter.value_placement, &parameter.gradient_placement, &parameter.state_placement}) {
    if (!is_here) placement->box.end[0] = placement->box.begin[0];
    placement->axes[kPipeline] = is_shared ? AxisKind::subset : AxisKind::shard;
  }
  if (is_shared) parameter.gradient_placement.axes[kPipeline] = AxisKind::partial;
}

// What the host itself submits, by whatever rank: the count of targets, partial gradients, the
// norm, measurements, and the whole tensors of an export.
std::vector<CommUse> host_communication(const RunConfig& config, const Mesh& mesh,
                                        const std::vector<Parameter*>& parameters) {
  std::vector<CommUse> uses = {{"", CLEAVE_ALL_GATHER, at::kDouble, 0}};
  if (mesh.world_size() > 1) uses.push_back({"", CLEAVE_ALL_REDUCE, at::kDouble, 0});
  if (mesh.size("data") > 1) uses.push_back({"data", CLEAVE_ALL_REDUCE, at::kLong, 0});
  const auto is_any = [&](const auto& is_meant) {
    return std::any_of(parameters.begin(), parameters.end(), is_meant);
  };
  for (const MeshAxis& axis : mesh.leaf_axes())
    if (axis.size > 1 && is_any([&](const Parameter* parameter) {
          return parameter->gradient_placement.kind(axis.name) == AxisKind::partial;
        }))
      uses.push_back({axis.name, CLEAVE_ALL_REDUCE, at::kFloat, 0});
  if (!config.model.export_folder.empty() && is_any([&](const Parameter* parameter) {
        return !is_whole_everywhere(parameter->state_placement, mesh);
      }))
    uses.push_back({"", CLEAVE_ALL_REDUCE, at::kInt, 0});
  return uses;
}

}  // namespace

PlannedRun::PlannedRun(const RunConfig& run_config, int world_size, int run_rank)
    : config(run_config),
      rank(run_rank),
      mesh(make_mesh(config, world_size)),
      num_micro_batches(cleave::num_micro_batches(config, mesh)),
      shape{config.train.micro_batch_size, config.data.sequence_length, config.model.hidden_size},
      model(config),
      parameters(model.parameters),
      strategies(config) {
  Strategies::Planned planned{
      config, mesh, rank, model.unit_infos, parameters, visits, num_micro_batches, shape};
  strategies.partition(planned);
  for (const UnitInfo& unit : model.unit_infos) chunk_of_unit.push_back(unit.chunk);
  place_on_ranks();
  keep_own_units();
  make_schedule();
  planned.visits = visits;
  const PlannedBackend backend = plan_backend(config);
  plan = strategies.solve(planned, backend);
  check_host_communication(config, host_communication(config, mesh, model.parameters), backend,
                           planned_device(config, backend));
  for (const CommUse& use : partial_gradient_uses(parameters, mesh))
    plan.communication.push_back({"the host", use});
  for (size_t i = 0; i < model.units.size(); ++i) model.units[i]->info = model.unit_infos[i];
  append(plan.memory, activation_memory(model.units, shape, actions(), visits));
  if (num_stages() > 1)
    plan.memory.push_back({"on their way between ranks",
                           2 * shape.activation_elements() *
                               static_cast<int64_t>(c10::elementSize(model.parameters[0]->dtype)),
                           MemoryCategory::activations});
  append(plan.memory, batch_memory(shape, num_micro_batches, config.data.ignore_token.has_value()));
  if (config.checkpoint.is_on() && config.checkpoint.asynchronous)
    plan.memory.push_back({"copy for checkpoints",
                           saved_bytes(parameters, mesh, rank) +
                               extra_saved_bytes(strategies, parameters, mesh, rank),
                           MemoryCategory::other});
}

// An axis that nobody schedules is refused by the solver, later.
int PlannedRun::num_stages() const {
  return strategies.scheduler() ? mesh.size(kPipeline) : 1;
}

int PlannedRun::stage() const {
  return num_stages() == 1 ? 0 : mesh.coordinate(rank, kPipeline);
}

const std::vector<Action>& PlannedRun::actions() const {
  return schedule.at(stage());
}

void PlannedRun::place_on_ranks() {
  const int ranks = num_stages(), mine = stage();
  if (ranks == 1) return;
  for (Parameter* parameter : model.parameters) {
    std::set<int> holders;
    for (int unit : parameter->units) holders.insert(chunk_of_unit[unit] % ranks);
    place(*parameter, holders.contains(mine), holders.size() > 1);
    std::erase_if(parameter->units, [&](int unit) { return chunk_of_unit[unit] % ranks != mine; });
  }
}

void PlannedRun::keep_own_units() {
  const int ranks = num_stages(), mine = stage();
  const auto is_elsewhere = [&](const UnitInfo& unit) { return unit.chunk % ranks != mine; };
  std::erase_if(model.units,
                [&](const auto& unit) { return chunk_of_unit[unit->info.index] % ranks != mine; });
  std::erase_if(model.unit_infos, is_elsewhere);
  std::erase_if(parameters, [](const Parameter* parameter) { return parameter->units.empty(); });
}

void PlannedRun::make_schedule() {
  Scheduler* scheduler = strategies.scheduler();
  schedule = scheduler ? scheduler->schedule(num_stages(), static_cast<int>(num_micro_batches))
                       : one_by_one(num_micro_batches);
  if (scheduler) simulate(schedule, num_chunks(), static_cast<int>(num_micro_batches));
  visits = visits_of(actions(), model.unit_infos);
}

}  // namespace cleave
