// Small model folders, made without the code that reads them where that is possible.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "huggingface/json_file.h"
#include "huggingface/weight_folder.h"
#include "support/temporary_folder.h"

namespace cleave::test {

std::string read_text(const std::filesystem::path& file);
void write_text(const std::filesystem::path& file, const std::string& text);

/// config.json of 3 layers, hidden 12, 3 heads of 4, 1 kv head, vocabulary 23; untied.
Json tiny_model(const std::string& architecture);
/// What transformers calls the tensors of that config, in any order.
std::vector<ExpectedTensor> tensors_of(const Json& config);

using Value = std::function<float(const std::string& tensor, int64_t element)>;
/// Follows from tensor and element; exact in bfloat16 and float16; never 0, which the smallest
/// update would change.
float any_value(const std::string& tensor, int64_t element);

struct ModelFolder {
  Json config;
  ElementType type = ElementType::float32;
  int shards = 1;
  Value value = any_value;
  std::vector<ExpectedTensor> more = {};  ///< beside those of the config
  std::vector<std::string> without = {};  ///< left out

  void write(const std::filesystem::path& folder) const;
};

/// A run of 2 steps with a learning rate that changes nothing, on ranks as threads, of the model in
/// `folder`/model; `toml` goes below [model].
std::filesystem::path write_run(const TemporaryFolder& folder, const std::string& toml = "");

struct Outcome {
  int code;
  std::string output;
  std::string error;
};
/// The program in this process.
Outcome run_host(const std::vector<std::string>& arguments);

/// All tensors of a folder in float32.
std::map<std::string, std::vector<float>> read_all(const std::filesystem::path& folder);

}  // namespace cleave::test
