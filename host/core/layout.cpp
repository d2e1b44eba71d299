#include "core/layout.h"

#include <algorithm>

#include "cleave/error.h"

namespace cleave {

namespace {

constexpr char kData[] = "data";

std::vector<MeshAxis> written_axes(const RunConfig& config, int data_size) {
  const auto written = [&](const std::string& axis) {
    const auto it = config.mesh.find(axis);
    return it == config.mesh.end() ? 1 : it->second;
  };
  std::vector<MeshAxis> axes = {{"pipeline", written("pipeline")}, {kData, data_size}};
  for (const auto& [axis, size] : config.mesh)
    if (axis != "pipeline" && axis != kData && axis != "tensor") axes.push_back({axis, size});
  axes.push_back({"tensor", written("tensor")});
  return axes;
}

// "pipeline 2 x tensor 3 = 6" of the written axes.
std::string equation(const RunConfig& config) {
  std::string text;
  for (const auto& [axis, size] : config.mesh)
    text += (text.empty() ? "" : " x ") + axis + " " + std::to_string(size);
  return text + " = " + std::to_string(written_mesh_size(config));
}

std::string mesh_origin(const RunConfig& config) {
  return config.where(config.mesh.empty() ? "mesh" : "mesh." + config.mesh.begin()->first);
}

}  // namespace

int written_mesh_size(const RunConfig& config) {
  int product = 1;
  for (const auto& [axis, size] : config.mesh) product *= size;
  return product;
}

Mesh make_mesh(const RunConfig& config, int world_size) {
  const int product = written_mesh_size(config);
  if (const auto data = config.mesh.find(kData); data != config.mesh.end()) {
    if (product != world_size)
      throw ConfigError(message(mesh_origin(config), ": ", equation(config), ", but there are ",
                                world_size, " ranks; start ", product,
                                " ranks or change an axis (leave data out to have it inferred)"));
    return Mesh(written_axes(config, data->second));
  }
  if (world_size % product != 0)
    throw ConfigError(message(mesh_origin(config), ": ", equation(config), " does not divide ",
                              world_size, " ranks, so data can't be inferred; start a multiple of ",
                              product, " ranks or change an axis"));
  return Mesh(written_axes(config, world_size / product));
}

int64_t num_micro_batches(const RunConfig& config, const Mesh& mesh) {
  const int64_t data = mesh.size(kData), micro = config.train.micro_batch_size;
  const int64_t global = config.train.global_batch_size;
  if (global % (micro * data) == 0) return global / (micro * data);
  const int64_t below = global / (micro * data) * (micro * data);
  throw ConfigError(message(config.where("train.global_batch_size"), " = ", global,
                            " is not a multiple of micro_batch_size ", micro, " x data ", data,
                            " = ", micro * data, "; use ", below > 0 ? message(below, " or ") : "",
                            below + micro * data));
}

}  // namespace cleave
