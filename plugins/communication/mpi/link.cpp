#include "link.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cleave/error.h"

namespace cleave::mpi {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw ConfigError(message("communication backend mpi: link_file = \"", path, "\": ", reason,
                            "; make it on these machines with: mpirun ... host bench --op "
                            "send_recv --json FILE"));
}

}  // namespace

Link read_link(const std::string& path, int machines) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    refuse(path, "is not a file");
  std::ifstream file(path);
  if (!file) refuse(path, "can't be read");
  const nlohmann::json all = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!all.is_object() || !all.contains("fits") || !all["fits"].is_array())
    refuse(path, "is not what host bench --json writes");
  const auto nodes = all.find("nodes");
  if (nodes == all.end() || !nodes->is_number_integer())
    refuse(path, "does not say on how many nodes it was measured");
  if (machines > 1 && *nodes == 1)
    refuse(path, message("was measured on one machine, and this run has ", machines));
  for (const auto& fit : all["fits"]) {
    if (!fit.is_object() || !fit.contains("op") || fit["op"] != "send_recv") continue;
    const auto number = [&](const char* key) {
      return fit.contains(key) && fit[key].is_number() ? fit[key].get<double>() : -1;
    };
    const Link link{number("alpha_us"), number("beta_gb_s"), path};
    if (link.alpha_us < 0 || !(link.gb_s > 0)) refuse(path, "its fit of send_recv has no numbers");
    return link;
  }
  refuse(path, "has no fit of send_recv");
}

}  // namespace cleave::mpi
