#include "core/communicators.h"

#include "cleave/error.h"
#include "core/exception_text.h"
#include "process/plugin_loader.h"

namespace cleave {

namespace {

constexpr size_t kErrorCapacity = 4096;

// The table is C, but what fills it in may be C++ that forgot it.
cleave_communicator* create(const LoadedPlugin& plugin, const PluginTable& table,
                            const OptionValues& options, const Bootstrap& bootstrap) {
  const std::string where = message(table.origin.text, ": communication ", table.name, ": ");
  const std::string file = plugin.file.string();
  cleave_communicator* communicator = nullptr;
  std::string error(kErrorCapacity, '\0');
  int32_t status = CLEAVE_OK;
  try {
    status = plugin.descriptor->create_communicator(&bootstrap.table(), options.view(),
                                                    &communicator, error.data(), error.size());
  } catch (...) {
    throw ConfigError(message(where, "create threw: ", exception_text(), "; mend ", file));
  }
  if (status != CLEAVE_OK)
    throw ConfigError(
        message(where, error.c_str(), bootstrap.error().empty() ? "" : ": ", bootstrap.error()));
  if (!communicator) throw ConfigError(message(where, "create returned nothing; mend ", file));
  return communicator;
}

}  // namespace

PlannedBackend plan_backend(const RunConfig& config) {
  const PluginTable& table = config.communication.backend;
  const LoadedPlugin plugin = load_plugin(CLEAVE_COMMUNICATION, table.name, table.origin);
  OptionValues("communication." + table.name, plugin.descriptor->options,
               plugin.descriptor->num_options, table);
  PlannedBackend backend{table.name, table.origin, {}};
  plugin.descriptor->capabilities(&backend.capabilities);
  return backend;
}

Communicators::Communicators(const RunConfig& config, const Mesh& mesh,
                             const Bootstrap& bootstrap) {
  const int rank = bootstrap.table().rank, world_size = bootstrap.table().world_size;
  const PluginTable& table = config.communication.backend;
  const LoadedPlugin plugin = load_plugin(CLEAVE_COMMUNICATION, table.name, table.origin);
  const cleave_plugin& descriptor = *plugin.descriptor;
  options_ = std::make_unique<OptionValues>("communication." + table.name, descriptor.options,
                                            descriptor.num_options, table);
  fingerprint_ = plugin_fingerprint("the build or options of communication " + table.name,
                                    plugin.file.string(), options_->shared_values());
  cleave_communicator* communicator = create(plugin, table, *options_, bootstrap);
  const int64_t timeout_ms = config.communication.timeout_s * 1000;
  world_ = std::make_unique<Comm>(communicator, "world", &stats_, timeout_ms);
  if (world_->rank() != rank || world_->size() != world_size)
    throw ConfigError(message(table.origin.text, ": communication ", table.name, " sees rank ",
                              world_->rank(), " of ", world_->size(), ", the launcher says ", rank,
                              " of ", world_size, "; start all ranks with one launcher"));
  for (const MeshAxis& axis : mesh.axes()) {
    const int color = mesh.group(rank, axis.name).front();
    axes_[axis.name] = world_->split(color, mesh.coordinate(rank, axis.name), axis.name);
  }
}

Communicators::~Communicators() = default;

Comm& Communicators::axis(std::string_view name) {
  const auto found = axes_.find(name);
  CLEAVE_CHECK(found != axes_.end(), "the mesh has no axis ", name);
  return *found->second;
}

void Communicators::set_trace(const CommTrace& trace) {
  world_->set_trace(trace);
  for (auto& [name, comm] : axes_) comm->set_trace(trace);
}

void Communicators::abort() noexcept {
  for (auto& [name, comm] : axes_) comm->abort();
  world_->abort();
}

void Communicators::finalize() {
  for (auto& [name, comm] : axes_) comm->finalize();
  world_->finalize();
}

}  // namespace cleave
