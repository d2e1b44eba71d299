#include "model_fixture.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "cleave/error.h"
#include "core/program.h"

namespace cleave::test {

namespace fs = std::filesystem;

std::string read_text(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw std::runtime_error("no such file: " + file.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_text(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

Json tiny_model(const std::string& architecture) {
  return {{"model_type", architecture}, {"vocab_size", 23},       {"hidden_size", 12},
          {"intermediate_size", 20},    {"num_hidden_layers", 3}, {"num_attention_heads", 3},
          {"num_key_value_heads", 1},   {"rms_norm_eps", 1e-5},   {"rope_theta", 500.5}};
}

std::vector<ExpectedTensor> tensors_of(const Json& config) {
  const int64_t V = config["vocab_size"], C = config["hidden_size"],
                F = config["intermediate_size"];
  const int64_t D = C / config["num_attention_heads"].get<int64_t>();
  const int64_t K = D * config["num_key_value_heads"].get<int64_t>();
  const bool is_llama = config["model_type"] == "llama";
  const bool has_bias = !is_llama || config.value("attention_bias", false);
  std::vector<ExpectedTensor> all = {{"model.embed_tokens.weight", {V, C}},
                                     {"model.norm.weight", {C}}};
  if (!config.value("tie_word_embeddings", false)) all.push_back({"lm_head.weight", {V, C}});
  for (int layer = 0; layer < config["num_hidden_layers"].get<int>(); ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
      all.push_back({prefix + name, std::move(shape)});
    };
    add("input_layernorm.weight", {C});
    add("post_attention_layernorm.weight", {C});
    add("self_attn.q_proj.weight", {C, C});
    add("self_attn.k_proj.weight", {K, C});
    add("self_attn.v_proj.weight", {K, C});
    add("self_attn.o_proj.weight", {C, C});
    add("mlp.gate_proj.weight", {F, C});
    add("mlp.up_proj.weight", {F, C});
    add("mlp.down_proj.weight", {C, F});
    if (!has_bias) continue;
    add("self_attn.q_proj.bias", {C});
    add("self_attn.k_proj.bias", {K});
    add("self_attn.v_proj.bias", {K});
    if (is_llama) add("self_attn.o_proj.bias", {C});
  }
  return all;
}

float any_value(const std::string& tensor, int64_t element) {
  auto hash = static_cast<uint64_t>(element);
  for (const char c : tensor) hash = hash * 31 + static_cast<unsigned char>(c);
  const int number = static_cast<int>(hash % 254) - 127;
  return static_cast<float>(number < 0 ? number : number + 1) / 256;
}

namespace {

std::vector<std::byte> content_of(const ExpectedTensor& tensor, const ModelFolder& model) {
  std::vector<float> values(TensorEntry{"", ElementType::uint8, tensor.shape}.num_bytes());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = model.value(tensor.name, static_cast<int64_t>(i));
  std::vector<std::byte> bytes(values.size() * bytes_of(model.type));
  from_float32(model.type, values.data(), static_cast<int64_t>(values.size()), bytes.data());
  return bytes;
}

}  // namespace

void ModelFolder::write(const fs::path& folder) const {
  fs::create_directories(folder);
  write_text(folder / "config.json", config.dump());
  auto tensors = tensors_of(config);
  tensors.insert(tensors.end(), more.begin(), more.end());
  std::erase_if(tensors, [&](const ExpectedTensor& tensor) {
    return std::find(without.begin(), without.end(), tensor.name) != without.end();
  });
  Json index = {{"metadata", Json::object()}, {"weight_map", Json::object()}};
  for (int shard = 0; shard < shards; ++shard) {
    const std::string name =
        shards == 1 ? "model.safetensors"
                    : message("model-0000", shard + 1, "-of-0000", shards, ".safetensors");
    std::vector<TensorEntry> entries;
    for (size_t i = shard; i < tensors.size(); i += shards)
      entries.push_back({tensors[i].name, type, tensors[i].shape});
    SafetensorsWriter writer(folder / name, entries, {});
    for (const TensorEntry& entry : entries) {
      writer.append(content_of({entry.name, entry.shape}, *this));
      index["weight_map"][entry.name] = name;
    }
    writer.finish();
  }
  if (shards > 1) write_text(folder / "model.safetensors.index.json", index.dump());
}

fs::path write_run(const TemporaryFolder& folder, const std::string& toml) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i * i % 23);
  write_text(folder.path() / "text.txt", text);
  const std::string here = folder.path().string();
  const fs::path file = folder.path() / "run.toml";
  write_text(file,
             message("[model]\npath = \"", here, "/model\"\n", toml, "\n[data]\npath = \"", here,
                     "/text.txt\"\nsequence_length = 8\n[train]\nsteps = 2\n",
                     "global_batch_size = 4\nmicro_batch_size = 2\n[optimizer]\nlr = 1e-30\n",
                     "weight_decay = 0.0\n[communication]\nbackend = \"local\"\n[metrics]\n",
                     "directory = \"", here, "/metrics\"\n[mesh]\ndata = 2\n", "[strategy.ddp]\n"));
  return file;
}

Outcome run_host(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"host"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream output, error;
  const int code = run_program(static_cast<int>(argv.size()), argv.data(), output, error);
  return {code, output.str(), error.str()};
}

std::map<std::string, std::vector<float>> read_all(const fs::path& folder) {
  std::map<std::string, std::vector<float>> all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const SafetensorsFile file(entry.path());
    for (const std::string& name : file.names()) {
      const TensorView& tensor = *file.find(name);
      all[name].resize(tensor.num_elements());
      to_float32(tensor.type, tensor.bytes.data(), tensor.num_elements(), all[name].data());
    }
  }
  return all;
}

}  // namespace cleave::test
