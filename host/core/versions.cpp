#include "core/versions.h"

#include <spdlog/version.h>
#include <toml++/toml.h>
#include <torch/headeronly/version.h>
#include <CLI/Version.hpp>
#include <boost/version.hpp>
#include <nlohmann/json.hpp>

#include "cleave/error.h"

namespace cleave {

std::vector<std::pair<std::string, std::string>> versions() {
  return {{"Cleave", CLEAVE_VERSION},
          {"LibTorch", TORCH_VERSION},
          {"Boost", message(BOOST_VERSION / 100000, ".", BOOST_VERSION / 100 % 1000, ".",
                            BOOST_VERSION % 100)},
          {"toml++", message(TOML_LIB_MAJOR, ".", TOML_LIB_MINOR, ".", TOML_LIB_PATCH)},
          {"CLI11", CLI11_VERSION},
          {"nlohmann-json", message(NLOHMANN_JSON_VERSION_MAJOR, ".", NLOHMANN_JSON_VERSION_MINOR,
                                    ".", NLOHMANN_JSON_VERSION_PATCH)},
          {"spdlog", message(SPDLOG_VER_MAJOR, ".", SPDLOG_VER_MINOR, ".", SPDLOG_VER_PATCH)},
          {"compiler", __VERSION__}};
}

void print_versions(std::ostream& out) {
  for (const auto& [name, version] : versions()) out << name << " " << version << "\n";
}

}  // namespace cleave
