#include "core/model.h"

#include "cleave/error.h"
#include "huggingface/config_json.h"

namespace cleave {

at::ScalarType scalar_type(const std::string& dtype) {
  if (dtype == "float32") return at::kFloat;
  if (dtype == "bfloat16") return at::kBFloat16;
  throw ConfigError(message("train.dtype: ", dtype, " is not known; use float32 or bfloat16"));
}

std::vector<ExpectedTensor> names_and_shapes(const std::vector<Parameter*>& parameters) {
  std::vector<ExpectedTensor> tensors;
  for (const Parameter* parameter : parameters)
    tensors.push_back({parameter->name, parameter->shape});
  return tensors;
}

namespace {

std::shared_ptr<const WeightFolder> open_weights(const ModelConfig& config,
                                                 const std::vector<Parameter*>& parameters) {
  if (config.init != "pretrained") return nullptr;
  return std::make_shared<WeightFolder>(config.path, names_and_shapes(parameters),
                                        config.tie_word_embeddings,
                                        declared_dtype(read_model_config(config.path)));
}

}  // namespace

Model::Model(const RunConfig& config)
    : table(scalar_type(config.train.dtype)),
      units(make_decoder(config.model, config.data.sequence_length, table)),
      parameters(table.all()) {
  for (const auto& unit : units) unit_infos.push_back(unit->info);
  weights = open_weights(config.model, parameters);
  initial_weights = weights ? folder_weights(weights)
                            : random_weights(config.train.seed, config.model.initializer_range);
}

void check_tied_head(const Model& model) {
  if (!model.weights) return;
  if (const auto element = model.weights->find_untied(0, 1))
    model.weights->refuse_untied(message("at element ", *element));
}

}  // namespace cleave
