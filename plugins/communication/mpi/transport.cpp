#include "transport.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cleave/error.h"

namespace cleave::mpi {
namespace {

void set(const char* name, const std::string& value) {
  setenv(name, value.c_str(), /*overwrite=*/0);
}

/// Refuses what the environment says otherwise.
void set_alone(const char* name, const std::string& value) {
  set(name, value);
  if (const std::string_view given = std::getenv(name); given != value)
    throw ConfigError(message("communication backend mpi: devices is ", value,
                              " and the environment has ", name, "=", given,
                              "; unset it, or leave devices out"));
}

std::vector<std::string> names_in(const char* folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string join(const std::vector<std::string>& names, const char* separator) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : separator) + name;
  return text;
}

// "mlx5_0:1" is port 1 of the adapter mlx5_0.
void check_device(const std::string& device, bool has_several_machines) {
  std::vector<std::string> known = names_in("/sys/class/net");
  const std::vector<std::string> adapters = names_in("/sys/class/infiniband");
  known.insert(known.end(), adapters.begin(), adapters.end());
  if (device == "lo" && has_several_machines)
    throw ConfigError(
        "communication backend mpi: devices: \"lo\" reaches this machine alone, and the ranks are "
        "on several; name an interface of the network");
  if (std::find(known.begin(), known.end(), device.substr(0, device.find(':'))) != known.end())
    return;
  throw ConfigError(message("communication backend mpi: devices: there is no \"", device,
                            "\" on this machine; it has ", join(known, ", ")));
}

}  // namespace

void prepare_transport(const Transport& transport, int world_size, int local_size) {
  const bool has_several_machines = local_size < world_size;
  for (const std::string& device : transport.devices) check_device(device, has_several_machines);
  // a rank that no mpirun has started leaves its shared memory behind
  if (world_size == 1) set("OMPI_MCA_btl", "self");
  if (transport.pml == "ob1") set("OMPI_MCA_pml", "ob1");
  if (transport.pml == "ucx" || (transport.pml == "auto" && has_several_machines)) {
    // Open MPI 5's names, then 4.1's: without them UCX yields where there is no Mellanox adapter
    for (const char* name : {"OMPI_MCA_opal_common_ucx_tls", "OMPI_MCA_opal_common_ucx_devices",
                             "OMPI_MCA_pml_ucx_tls", "OMPI_MCA_pml_ucx_devices"})
      set(name, "any");
  }
  if (transport.devices.empty()) return;
  const std::string devices = join(transport.devices, ",");
  set_alone("OMPI_MCA_btl_tcp_if_include", devices);
  set_alone("UCX_NET_DEVICES", devices);
}

void check_transport(const Transport& transport, const std::string& chosen_pml) {
  if (transport.pml == "auto" || transport.pml == chosen_pml) return;
  throw ConfigError(message("communication backend mpi: pml = \"", transport.pml,
                            "\" was asked for, and Open MPI chose ", chosen_pml,
                            "; unset OMPI_MCA_pml, use an Open MPI that has ", transport.pml,
                            ", or leave pml = \"auto\""));
}

}  // namespace cleave::mpi
