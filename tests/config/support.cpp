#include "support.h"

#include <stdlib.h>

#include <fstream>

#include "cleave/error.h"

namespace cleave {

Tables complete_run() {
  return {{"model",
           {{"architecture", "\"qwen2\""},
            {"vocab_size", "256"},
            {"hidden_size", "64"},
            {"intermediate_size", "128"},
            {"num_hidden_layers", "2"},
            {"num_attention_heads", "4"}}},
          {"data", {{"path", "\"data/text\""}, {"sequence_length", "32"}}},
          {"train", {{"steps", "10"}, {"global_batch_size", "8"}, {"micro_batch_size", "2"}}},
          {"optimizer", {{"lr", "1e-3"}}},
          {"mesh", {}},
          {"communication", {}},
          {"metrics", {}}};
}

std::string to_text(const Tables& tables) {
  std::string text;
  for (const auto& [table, keys] : tables) {
    text.append("[").append(table).append("]\n");
    for (const auto& [key, value] : keys) text.append(key).append(" = ").append(value).append("\n");
  }
  return text;
}

TemporaryFile::TemporaryFile(const std::string& text) {
  std::string folder = (std::filesystem::temp_directory_path() / "cleave_config_XXXXXX").string();
  if (!mkdtemp(folder.data())) throw std::runtime_error("no temporary folder: " + folder);
  path_ = std::filesystem::path(folder) / "run.toml";
  std::ofstream(path_, std::ios::binary) << text;
}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  std::filesystem::remove_all(path_.parent_path(), ignored);
}

RunConfig load(const std::string& text, const std::vector<std::string>& overrides) {
  const TemporaryFile file(text);
  return load_run_config(file.path(), overrides);
}

RunConfig load(const Tables& tables, const std::vector<std::string>& overrides) {
  return load(to_text(tables), overrides);
}

std::string error_of(const std::string& text, const std::vector<std::string>& overrides) {
  const TemporaryFile file(text);
  try {
    load_run_config(file.path(), overrides);
  } catch (const ConfigError& error) {
    std::string what = error.what();
    const std::string folder = file.path().parent_path().string() + "/";
    for (size_t at; (at = what.find(folder)) != std::string::npos;) what.erase(at, folder.size());
    return what;
  }
  return "";
}

std::string error_of(const Tables& tables, const std::vector<std::string>& overrides) {
  return error_of(to_text(tables), overrides);
}

}  // namespace cleave
