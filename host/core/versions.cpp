#include "core/versions.h"

#include <spdlog/version.h>
#include <toml++/toml.h>
#include <torch/headeronly/version.h>
#include <CLI/Version.hpp>
#include <boost/version.hpp>
#include <nlohmann/json.hpp>

namespace cleave {

void print_versions(std::ostream& out) {
  out << "Cleave " << CLEAVE_VERSION << "\nLibTorch " << TORCH_VERSION << "\nBoost "
      << BOOST_VERSION / 100000 << "." << BOOST_VERSION / 100 % 1000 << "." << BOOST_VERSION % 100
      << "\ntoml++ " << TOML_LIB_MAJOR << "." << TOML_LIB_MINOR << "." << TOML_LIB_PATCH
      << "\nCLI11 " << CLI11_VERSION << "\nnlohmann-json " << NLOHMANN_JSON_VERSION_MAJOR << "."
      << NLOHMANN_JSON_VERSION_MINOR << "." << NLOHMANN_JSON_VERSION_PATCH << "\nspdlog "
      << SPDLOG_VER_MAJOR << "." << SPDLOG_VER_MINOR << "." << SPDLOG_VER_PATCH << "\ncompiler "
      << __VERSION__ << "\n";
}

}  // namespace cleave
