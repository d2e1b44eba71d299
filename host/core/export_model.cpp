#include "core/export_model.h"

#include <ATen/ATen.h>

#include "cleave/error.h"
#include "huggingface/config_json.h"
#include "huggingface/model_writer.h"

namespace cleave {

ModelExport::ModelExport(const RunConfig& config, const std::vector<Parameter*>& parameters)
    : parameters_(parameters),
      folder_(config.model.export_folder),
      dtype_(config.model.export_dtype) {
  check_export_folder(folder_);
  const ModelConfig& model = config.model;
  const Json source = model.path.empty() ? Json() : read_model_config(model.path);
  config_text_ =
      make_model_config(model, source, dtype_, config.data.sequence_length).dump(2) + '\n';
}

void ModelExport::write(const std::function<at::Tensor(const Parameter&)>& value,
                        std::ostream& out) const {
  const auto type = dtype_ == "bfloat16" ? ElementType::bfloat16 : ElementType::float32;
  ModelWriter writer(folder_, {config_text_, names_and_shapes(parameters_), type});
  for (const Parameter* parameter : parameters_) {
    const at::Tensor whole = value(*parameter).to(at::kCPU, at::kFloat).contiguous();
    writer.append({whole.const_data_ptr<float>(), static_cast<size_t>(whole.numel())});
  }
  writer.publish();
  out << "exported " << parameters_.size() << " tensors, " << writer.total_bytes() << " bytes ("
      << dtype_ << ") to " << folder_.string() << std::endl;
}

void export_initial(const RunConfig& config, std::ostream& out) {
  const Model model(config);
  check_tied_head(model);
  const ModelExport target(config, model.parameters);
  target.write(
      [&](const Parameter& parameter) {
        return model.table.initial(parameter, {Box::whole(parameter.shape), {}, {}},
                                   model.initial_weights);
      },
      out);
}

}  // namespace cleave
