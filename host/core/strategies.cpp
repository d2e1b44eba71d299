#include "core/strategies.h"

#include <algorithm>

#include "cleave/error.h"
#include "core/device.h"
#include "core/exception_text.h"
#include "core/memory_plan.h"
#include "process/plugin_loader.h"

namespace cleave {

namespace {

void divide(Mesh& mesh, const Plan& plan, const std::vector<PlannedStrategy>& all) {
  for (const auto& [axis, inner_size] : plan.divided_axes) {
    for (const PlannedStrategy& other : all) {
      const auto found = other.plan.divided_axes.find(axis);
      if (found != other.plan.divided_axes.end() && found->second != inner_size)
        throw ConfigError(message("it divides the axis ", axis, " into groups of ", inner_size,
                                  " ranks, but ", other.origin.text, ": strategy ", other.name,
                                  " into groups of ", found->second, "; remove one of the two"));
    }
    mesh.divide(axis, inner_size);
  }
}

// A refusal is the strategy's own text, at its table (the solver's has both sides' already);
// anything else that it throws is a Failure that names the hook.
template <typename Failure = ConfigError, typename Call>
void with_refusals(const std::string& name, const Origin& origin, const char* hook,
                   const Call& call) {
  std::string refusal;
  guarded<Failure>(name, hook, "", [&] {
    try {
      call();
    } catch (const ConfigError& error) {
      refusal = error.what();
    }
  });
  if (refusal.empty()) return;
  const std::string side = message(origin.text, ": strategy ", name);
  throw ConfigError(refusal.starts_with(side) ? refusal : message(side, ": ", refusal));
}

template <typename Role>
void add_single_role(Strategy& strategy, PlannedStrategy& planned) {
  if (role<Role>(strategy)) planned.single_roles.push_back(Role::kInterface);
}

Strategy* create(const LoadedPlugin& plugin, const PluginTable& table,
                 const OptionValues& options) {
  const std::string where = message(table.origin.text, ": strategy ", table.name, ": ");
  const std::string file = plugin.file.string();
  void* strategy = nullptr;
  try {
    strategy = plugin.descriptor->create_strategy(options.view());
  } catch (const ConfigError& error) {
    throw ConfigError(where + error.what());
  } catch (...) {
    throw ConfigError(
        message(where, "create threw: ", exception_text(), "; see its options, or mend ", file));
  }
  if (!strategy) throw ConfigError(message(where, "create returned nothing; mend ", file));
  return static_cast<Strategy*>(strategy);
}

}  // namespace

int64_t SolvedPlan::memory_bytes(MemoryCategory category) const {
  const auto sum = [&](const std::vector<MemoryItem>& items) {
    int64_t bytes = 0;
    for (const MemoryItem& item : items)
      if (item.category == category) bytes += item.bytes;
    return bytes;
  };
  return std::max(sum(memory), sum(initial_memory));
}

int64_t SolvedPlan::memory_bytes() const {
  int64_t steady = 0;
  std::vector<int64_t> of_visits = {0};
  for (const MemoryItem& item : memory) {
    if (item.of_visits.empty()) {
      steady += item.bytes;
      continue;
    }
    of_visits.resize(std::max(of_visits.size(), item.of_visits.size()));
    for (size_t i = 0; i < item.of_visits.size(); ++i) of_visits[i] += item.of_visits[i];
  }
  return steady + *std::max_element(of_visits.begin(), of_visits.end());
}

double SolvedPlan::wire_bytes_per_step() const {
  double total = 0;
  for (const Use& use : communication) total += use.use.wire_bytes_per_step;
  return total;
}

Strategies::Strategies(const RunConfig& config) {
  prepare_plugins(config);
  for (const PluginTable& table : config.strategies) {
    const LoadedPlugin plugin = load_plugin(CLEAVE_STRATEGY, table.name, table.origin);
    auto options =
        std::make_unique<OptionValues>("strategy." + table.name, plugin.descriptor->options,
                                       plugin.descriptor->num_options, table);
    Fingerprint fingerprint = plugin_fingerprint("the build or options of strategy " + table.name,
                                                 plugin.file.string(), options->shared_values());
    std::unique_ptr<Strategy, Destroy> strategy(create(plugin, table, *options));
    loaded_.push_back({table.name,
                       table.origin,
                       std::move(fingerprint),
                       std::move(options),
                       std::move(strategy),
                       {}});
  }
}

// What ends here has failed already; a second failure would only hide the first.
void Strategies::Destroy::operator()(Strategy* strategy) const noexcept {
  try {
    strategy->destroy();
  } catch (...) {
  }
}

Strategies::~Strategies() {
  while (!loaded_.empty()) loaded_.pop_back();
}

void Strategies::destroy() {
  for (; !loaded_.empty(); loaded_.pop_back())
    guarded<RuntimeError>(loaded_.back().name, "destroy", "",
                          [&] { loaded_.back().strategy.release()->destroy(); });
}

std::vector<Fingerprint> Strategies::fingerprints() const {
  std::vector<Fingerprint> all;
  for (const Loaded& loaded : loaded_) all.push_back(loaded.fingerprint);
  return all;
}

Scheduler* Strategies::scheduler() const {
  for (const Loaded& loaded : loaded_)
    if (auto* scheduler = role<Scheduler>(*loaded.strategy)) return scheduler;
  return nullptr;
}

void Strategies::partition(Planned& run) {
  for (const Loaded& loaded : loaded_)
    planned_.push_back({loaded.name,
                        loaded.origin,
                        Plan{run.mesh, run.rank, run.units, run.parameters, run.visits,
                             run.num_micro_batches, run.shape},
                        {}});
  for (size_t i = 0; i < loaded_.size(); ++i) {
    Plan& plan = planned_[i].plan;
    if (auto* partitioner = role<Partitioner>(*loaded_[i].strategy))
      with_refusals(loaded_[i].name, loaded_[i].origin, "partition", [&] {
        partitioner->partition(plan);
        divide(run.mesh, plan, planned_);
      });
    run.shape.ranks = std::max(run.shape.ranks, plan.activation_ranks);
  }
}

SolvedPlan Strategies::solve(Planned& run, const PlannedBackend& backend) {
  std::vector<PlannedStrategy> planned = std::move(planned_);
  for (size_t i = 0; i < loaded_.size(); ++i) {
    Strategy& strategy = *loaded_[i].strategy;
    Plan& plan = planned[i].plan;
    plan.visits = run.visits;
    plan.shape = run.shape;
    with_refusals(loaded_[i].name, loaded_[i].origin, "plan", [&] {
      try {
        strategy.plan(plan);
      } catch (const ConfigError&) {
        check_one_owner(run.mesh, planned);  // says more
        throw;
      }
      divide(run.mesh, plan, planned);
    });
    add_single_role<GradientReducer>(strategy, planned[i]);
    add_single_role<ParameterSharder>(strategy, planned[i]);
    add_single_role<OptimizerBinder>(strategy, planned[i]);
    add_single_role<Scheduler>(strategy, planned[i]);
  }
  const auto solve_all = [&] {
    return cleave::solve(run.config, run.mesh, planned, backend,
                         planned_device(run.config, backend));
  };
  const std::vector<size_t> order = solve_all();
  if (transform_exchanges(planned, order)) solve_all();  // what is sent is another thing now
  SolvedPlan solved;
  solved.memory = model_states(run.parameters);
  solved.initial_memory = cleave::initial_memory(run.parameters);
  std::vector<Loaded> ordered;
  for (size_t i : order) {
    const Plan& plan = planned[i].plan;
    for (const std::string& axis : plan.claimed_axes) loaded_[i].axes.push_back(axis);
    for (const auto& [axis, inner_size] : plan.divided_axes)
      for (const char* part : {".outer", ".inner"}) loaded_[i].axes.push_back(axis + part);
    for (const CommUse& use : plan.communication) {
      loaded_[i].axes.push_back(use.axis);
      solved.communication.push_back({loaded_[i].name, use});
      solved.communication.back().use.gradient_buckets.clear();  // they say nothing any more
    }
    solved.memory.insert(solved.memory.end(), plan.memory.begin(), plan.memory.end());
    solved.order.push_back(loaded_[i].name);
    if (std::count(plan.offers.begin(), plan.offers.end(), "gradients.lossy") > 0)
      solved.lossy.push_back(loaded_[i].name);
    ordered.push_back(std::move(loaded_[i]));
  }
  loaded_ = std::move(ordered);
  return solved;
}

// From the outermost inwards: what one passes on is the next one's to replace.
bool Strategies::transform_exchanges(std::vector<PlannedStrategy>& planned,
                                     const std::vector<size_t>& order) {
  bool any = false;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    auto* transformer = role<GradientTransformer>(*loaded_[*i].strategy);
    if (!transformer) continue;
    std::vector<CommUse> exchanged;
    for (PlannedStrategy& strategy : planned)
      std::erase_if(strategy.plan.communication, [&](const CommUse& use) {
        if (!use.gradient_buckets.empty()) exchanged.push_back(use);
        return !use.gradient_buckets.empty();
      });
    for (const CommUse& use : exchanged)
      with_refusals(loaded_[*i].name, loaded_[*i].origin, "plan_exchange",
                    [&] { transformer->plan_exchange(use, planned[*i].plan); });
    any |= !exchanged.empty();
  }
  return any;
}

void Strategies::start(const Runtime& runtime) {
  for (Loaded& loaded : loaded_) {
    loaded.runtime.emplace(runtime);
    loaded.runtime->gradients = &exchanges_;
    loaded.runtime->comm = [comm = runtime.comm, &loaded](std::string_view axis) -> Comm& {
      if (std::find(loaded.axes.begin(), loaded.axes.end(), axis) == loaded.axes.end())
        throw RuntimeError(message("it uses the axis ", axis, ", which its plan did not name; ",
                                   "claim it or list it in Plan::communication"));
      return comm(axis);
    };
    MemoryScope scope(MemoryCategory::communication);
    with_refusals<RuntimeError>(loaded.name, loaded.origin, "start",
                                [&] { loaded.strategy->start(*loaded.runtime); });
    if (auto* found = role<GradientReducer>(*loaded.strategy))
      reducer_ = std::make_unique<GuardedReducer>(loaded.name, *found);
    if (auto* found = role<ParameterSharder>(*loaded.strategy))
      sharder_ = std::make_unique<GuardedSharder>(loaded.name, *found);
    if (auto* found = role<OptimizerBinder>(*loaded.strategy))
      binder_ = std::make_unique<GuardedBinder>(loaded.name, *found);
    if (auto* found = role<UnitObserver>(*loaded.strategy))
      observers_.push_back(std::make_unique<GuardedObserver>(loaded.name, *found));
    if (auto* found = role<StepWrapper>(*loaded.strategy))
      step_wrappers_.push_back(std::make_unique<GuardedStepWrapper>(loaded.name, *found));
  }
  for (Loaded& loaded : loaded_)
    if (auto* transformer = role<GradientTransformer>(*loaded.strategy))
      exchanges_.push(loaded.name, *transformer);
}

std::vector<std::pair<std::string, ExtraState*>> Strategies::extra_states() const {
  std::vector<std::pair<std::string, ExtraState*>> states;
  for (const Loaded& loaded : loaded_)
    if (auto* found = role<ExtraState>(*loaded.strategy)) states.emplace_back(loaded.name, found);
  return states;
}

Ops& Strategies::rewrite(Ops& ops) {
  Ops* outermost = &ops;
  for (Loaded& loaded : loaded_)
    if (auto* rewriter = role<OpsRewriter>(*loaded.strategy))
      guarded<RuntimeError>(loaded.name, "rewrite", "",
                            [&] { outermost = &rewriter->rewrite(*outermost); });
  return *outermost;
}

void Strategies::quiesce() {
  for (auto it = loaded_.rbegin(); it != loaded_.rend(); ++it)
    guarded<RuntimeError>(it->name, "quiesce", "", [&] { it->strategy->quiesce(); });
}

}  // namespace cleave
