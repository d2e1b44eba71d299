#include "reference_case.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cleave/error.h"
#include "core/model.h"
#include "huggingface/safetensors.h"

namespace cleave::test {

namespace {

const std::filesystem::path kReference = CLEAVE_REFERENCE;

std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  CLEAVE_CHECK(stream.good(), file.string(), " can't be read");
  return {std::istreambuf_iterator<char>(stream), {}};
}

NamedTensors read_tensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  NamedTensors tensors;
  for (const std::string& name : file.names()) {
    const TensorView& view = *file.find(name);
    const auto dtype = view.type == ElementType::float64 ? at::kDouble : at::kFloat;
    at::Tensor& tensor = tensors[name] = at::empty(view.shape, dtype);
    CLEAVE_CHECK(tensor.nbytes() == view.bytes.size(), path.string(), ": ", name, " is ",
                 name_of(view.type), ", not F64 or F32");
    std::memcpy(tensor.mutable_data_ptr(), view.bytes.data(), view.bytes.size());
  }
  return tensors;
}

std::string describe(const Deviation& deviation, const NamedTensors& run,
                     const NamedTensors& expected) {
  const std::string& name = deviation.first;
  const at::Tensor g = run.at(name).to(at::kDouble), r = expected.at(name);
  return message(deviation.what, ": ", name, " differs: its norm is ", g.norm().item<double>(),
                 ", the reference's ", r.norm().item<double>(), ", the difference's ",
                 (g - r).norm().item<double>(), "\n");
}

std::string judge_record(const StepRecord& record, const StepRecord& expected) {
  std::string failure;
  if (std::abs(record.lr - expected.lr) > 1e-12 * expected.lr)
    failure += message("lr of step ", record.step, ": ", record.lr, ", the reference's ",
                       expected.lr, "\n");
  if (record.valid_tokens != expected.valid_tokens)
    failure += message("valid_tokens of step ", record.step, ": ", record.valid_tokens,
                       ", the reference's ", expected.valid_tokens, "\n");
  return failure;
}

}  // namespace

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kReference / "cases"))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

ReferenceCase load_case(const std::string& name) {
  ReferenceCase reference{name, kReference / "cases" / name, {}};
  CapturedRun& expected = reference.expected;
  const auto steps = nlohmann::json::parse(read(reference.folder / "expected.json"));
  for (size_t i = 0; i < steps.at("loss").size(); ++i) {
    StepRecord record{};
    record.step = static_cast<int64_t>(i) + 1;
    record.loss = steps.at("loss")[i];
    record.grad_norm = steps.at("grad_norm")[i];
    record.lr = steps.at("lr")[i];
    record.valid_tokens = steps.at("valid_tokens")[i];
    expected.records.push_back(record);
  }
  expected.initial_weights = read_tensors(reference.folder / "model.safetensors");
  expected.first_gradients = read_tensors(reference.folder / "gradients.safetensors");
  expected.final_weights = read_tensors(reference.folder / "final.safetensors");
  return reference;
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const auto& row : nlohmann::json::parse(read(kReference / "layouts.json")))
    all.push_back({row.at("name"), row.at("ranks"), row.at("toml"), row.at("micro_batch_sizes"), row.value("cases", std::vector<std::string>())});
  return all;
}

RunConfig config_of(const ReferenceCase& reference, const Layout& layout, int64_t micro_batch_size,
                    const TemporaryFolder& folder) {
  const std::filesystem::path file = folder.path() / "run.toml";
  std::ofstream(file) << read(reference.folder / "run.toml") << layout.toml << "\n";
  RunConfig config = load_run_config(
      file, {"model.path=" + reference.folder.string(),
             "train.micro_batch_size=" + std::to_string(micro_batch_size),
             "communication.backend=local", "metrics.directory=" + folder.path().string()});
  config.data.path = reference.folder / config.data.path;
  return config;
}

std::vector<std::string> parameter_order(const RunConfig& config) {
  std::vector<std::string> names;
  for (const Parameter* parameter : Model(config).parameters) names.push_back(parameter->name);
  return names;
}

Judgement judge(const CapturedRun& run, const ReferenceCase& reference,
                const std::vector<std::string>& parameter_order) {
  const CapturedRun& expected = reference.expected;
  Judgement judgement{compare(run, expected, parameter_order, tolerances("float32")), ""};
  std::string& failure = judgement.failure;
  for (size_t i = 0; i < expected.records.size(); ++i)
    failure += judge_record(run.records.at(i), expected.records[i]);
  for (const Deviation& deviation : judgement.deviations) {
    if (deviation.first.empty()) continue;
    if (deviation.what.starts_with("gradients"))
      failure += describe(deviation, run.first_gradients, expected.first_gradients);
    else if (deviation.what.starts_with("weights"))
      failure += describe(deviation, run.final_weights, expected.final_weights);
    else
      failure += message(deviation.what, ": differs at ", deviation.first, "\n");
  }
  return judgement;
}

}  // namespace cleave::test
