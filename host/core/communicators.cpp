#include "core/communicators.h"

#include "cleave/error.h"
#include "core/exception_text.h"
#include "process/plugin_loader.h"
#include "process/store_communicator.h"

namespace cleave {

namespace {

constexpr size_t kErrorCapacity = 4096;

// The table is C, but what fills it in may be C++ that forgot it.
cleave_communicator* create(const LoadedPlugin& plugin, const PluginTable& table,
                            const OptionValues& options, const Bootstrap& bootstrap,
                            bool deterministic) {
  const std::string where = message(table.origin.text, ": communication ", table.name, ": ");
  const std::string file = plugin.file.string();
  cleave_communicator* communicator = nullptr;
  std::string error(kErrorCapacity, '\0');
  int32_t status = CLEAVE_OK;
  cleave_bootstrap told = bootstrap.table();
  told.deterministic = deterministic ? 1 : 0;
  try {
    status = plugin.descriptor->create_communicator(&told, options.view(), &communicator,
                                                    error.data(), error.size());
  } catch (...) {
    throw ConfigError(message(where, "create threw: ", exception_text(), "; mend ", file));
  }
  if (status != CLEAVE_OK)
    throw ConfigError(
        message(where, error.c_str(), bootstrap.error().empty() ? "" : ": ", bootstrap.error()));
  if (!communicator) throw ConfigError(message(where, "create returned nothing; mend ", file));
  return communicator;
}

/// An axis, or a part of a divided one, and the plugin that serves it.
struct ServedAxis {
  std::string name;
  const PluginTable* backend;
};

// In an order that is the same on all ranks: communicators are split in it.
std::vector<ServedAxis> served_axes(const RunConfig& config, const Mesh& mesh) {
  std::vector<ServedAxis> served;
  for (const MeshAxis& axis : mesh.axes())
    for (const char* part : {"", ".outer", ".inner"}) {
      const std::string name = axis.name + part;
      if (!mesh.has_axis(name)) continue;
      const CommunicationConfig& communication = config.communication;
      served.push_back(
          {name, mesh.size(name) > 1 ? &communication.backend_of(name) : &communication.backend});
    }
  return served;
}

// Ranks that differ in it would wait for each other in communicators that some never create.
Fingerprint fingerprint_of(const std::vector<ServedAxis>& served) {
  std::string text;
  for (const ServedAxis& axis : served) text += axis.name + " " + axis.backend->name + "\n";
  return {"the axes or their backends", fingerprint(text)};
}

// All that the host tells other ranks by CPU tensors.
bool moves_host_memory(const Comm& comm) {
  for (const cleave_op op : {CLEAVE_ALL_REDUCE, CLEAVE_ALL_GATHER, CLEAVE_BROADCAST})
    for (const at::ScalarType dtype : {at::kByte, at::kInt, at::kLong, at::kDouble})
      if (!comm.supports(op, dtype, at::kCPU)) return false;
  return true;
}

LoadedPlugin load_backend(const PluginTable& table) {
  return load_plugin(CLEAVE_COMMUNICATION, table.name, table.origin);
}

OptionValues check_options(const LoadedPlugin& plugin, const PluginTable& table) {
  return OptionValues("communication." + table.name, plugin.descriptor->options,
                      plugin.descriptor->num_options, table);
}

PlannedBackend plan_one(const PluginTable& table) {
  const LoadedPlugin plugin = load_backend(table);
  check_options(plugin, table);
  PlannedBackend backend{table.name, table.origin, {}};
  plugin.descriptor->capabilities(&backend.capabilities);
  return backend;
}

}  // namespace

PlannedBackend plan_backend(const RunConfig& config) {
  PlannedBackend backend = plan_one(config.communication.backend);
  for (const PluginTable& other : config.communication.axis_backends)
    backend.others.push_back(plan_one(other));
  return backend;
}

Communicators::Communicators(const RunConfig& config, const Mesh& mesh, const Bootstrap& bootstrap)
    : bootstrap_(bootstrap),
      timeout_ms_(config.communication.timeout_s * 1000),
      deterministic_(config.train.deterministic) {
  const int rank = bootstrap.table().rank;
  start(config.communication.backend).serves = {"world"};
  control_ = new_control("control");
  const std::vector<ServedAxis> served = served_axes(config, mesh);
  check_agreement(control(), {fingerprint_of(served)});
  for (const ServedAxis& axis : served) {
    StartedBackend* backend = find(axis.backend->name);
    if (!backend) backend = &start(*axis.backend);
    const int color = mesh.group(rank, axis.name).front();
    axes_[axis.name] = backend->world->split(color, mesh.coordinate(rank, axis.name), axis.name);
    if (mesh.size(axis.name) > 1) backend->serves.push_back(axis.name);
  }
}

Communicators::~Communicators() = default;

std::unique_ptr<Comm> Communicators::new_control(const std::string& name) {
  if (moves_host_memory(world())) return nullptr;
  return std::make_unique<Comm>(make_store_communicator(bootstrap_, name), name, &control_stats_,
                                timeout_ms_);
}

Communicators::StartedBackend& Communicators::start(const PluginTable& table) {
  const LoadedPlugin plugin = load_backend(table);
  auto options = std::make_unique<OptionValues>(check_options(plugin, table));
  const std::string shared_values = options->shared_values();
  cleave_communicator* communicator = create(plugin, table, *options, bootstrap_, deterministic_);
  const std::string name = backends_.empty() ? "world" : "world of " + table.name;
  auto world = std::make_unique<Comm>(communicator, name, &stats_, timeout_ms_);
  const int rank = bootstrap_.table().rank, world_size = bootstrap_.table().world_size;
  if (world->rank() != rank || world->size() != world_size)
    throw ConfigError(message(table.origin.text, ": communication ", table.name, " sees rank ",
                              world->rank(), " of ", world->size(), ", the launcher says ", rank,
                              " of ", world_size, "; start all ranks with one launcher"));
  backends_.push_back({table.name,
                       std::move(options),
                       plugin_fingerprint("the build or options of communication " + table.name,
                                          plugin.file.string(), shared_values),
                       std::move(world),
                       {}});
  return backends_.back();
}

Communicators::StartedBackend* Communicators::find(const std::string& name) {
  for (StartedBackend& backend : backends_)
    if (backend.name == name) return &backend;
  return nullptr;
}

Comm& Communicators::axis(std::string_view name) {
  const auto found = axes_.find(name);
  CLEAVE_CHECK(found != axes_.end(), "the mesh has no axis ", name);
  return *found->second;
}

Fingerprint Communicators::fingerprint() const {
  Fingerprint all = backends_.front().fingerprint;
  for (size_t i = 1; i < backends_.size(); ++i) {
    all.what += " or " + backends_[i].name;
    all.hash = cleave::fingerprint(message(all.hash, ' ', backends_[i].fingerprint.hash));
  }
  return all;
}

std::vector<Communicators::Description> Communicators::describe() const {
  std::vector<Description> all;
  for (const StartedBackend& backend : backends_)
    all.push_back({backend.name, backend.world->describe(), backend.serves});
  return all;
}

void Communicators::set_trace(const CommTrace& trace) {
  for (StartedBackend& backend : backends_) backend.world->set_trace(trace);
  for (auto& [name, comm] : axes_) comm->set_trace(trace);
}

void Communicators::wait_for_released() {
  for (auto& [name, comm] : axes_) comm->wait_for_released();
  for (StartedBackend& backend : backends_) backend.world->wait_for_released();
}

void Communicators::abort() noexcept {
  for (auto& [name, comm] : axes_) comm->abort();
  for (StartedBackend& backend : backends_) backend.world->abort();
  if (control_) control_->abort();
}

void Communicators::finalize() {
  for (auto& [name, comm] : axes_) comm->finalize();
  for (StartedBackend& backend : backends_) backend.world->finalize();
  if (control_) control_->finalize();
}

}  // namespace cleave
