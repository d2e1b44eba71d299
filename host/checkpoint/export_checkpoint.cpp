#include "checkpoint/export_checkpoint.h"

#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/inspect.h"
#include "cleave/error.h"
#include "huggingface/config_json.h"
#include "huggingface/model_writer.h"

namespace cleave {

namespace {

ElementType parse_dtype(const std::string& dtype) {
  if (dtype == "float32") return ElementType::float32;
  if (dtype == "bfloat16") return ElementType::bfloat16;
  throw ConfigError(
      message("export: dtype ", quote(dtype), " is not known; use float32 or bfloat16"));
}

std::vector<ExpectedTensor> weights_of(const Manifest& manifest) {
  std::vector<ExpectedTensor> weights;
  for (const StoredTensor& tensor : manifest.tensors)
    if (is_weight(tensor.name) && extra_state_of(manifest, tensor.name).empty())
      weights.push_back({tensor.name, tensor.shape});
  return weights;
}

}  // namespace

void export_checkpoint(const std::filesystem::path& checkpoint, const std::filesystem::path& to,
                       const std::string& dtype, std::ostream& out) {
  const ElementType type = parse_dtype(dtype);
  check_export_folder(to);
  const CheckpointReader reader(resolve_checkpoint(checkpoint, out));
  const std::vector<ExpectedTensor> weights = weights_of(reader.manifest());
  Json config = reader.manifest().model;
  set_declared_dtype(config, dtype);
  ModelWriter writer(to, {config.dump(2) + '\n', weights, type});
  std::vector<float> values;
  for (const auto& [name, shape] : weights) {
    const Slice whole = Slice::whole(shape);
    values.resize(static_cast<size_t>(whole.num_elements()));
    reader.read(name, whole, values.data());
    writer.append(values);
  }
  writer.publish();
  out << "exported " << weights.size() << " tensors, " << writer.total_bytes() << " bytes ("
      << dtype << ") to " << to.string() << std::endl;
}

}  // namespace cleave
