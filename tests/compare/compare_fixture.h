// A comparison's files in a folder of their own.
#pragma once

#include <fstream>
#include <string>

#include "cleave/error.h"
#include "compare/matrix.h"
#include "support/temporary_folder.h"

namespace cleave::test {

constexpr const char* kRun = R"(
[model]
architecture = "llama"
vocab_size = 131
hidden_size = 24
intermediate_size = 40
num_hidden_layers = 5
num_attention_heads = 3
num_key_value_heads = 1
[data]
path = "text.txt"
sequence_length = 16
[train]
steps = 7
global_batch_size = 24
micro_batch_size = 1
[optimizer]
lr = 1e-3
[strategy.ddp]
bucket_bytes = 20000
)";

class CompareFolder {
 public:
  explicit CompareFolder(const std::string& run = kRun) {
    std::ofstream(folder_.path() / "run.toml") << run;
  }

  CompareConfig load(const std::string& text,
                     const std::vector<std::string>& overrides = {}) const {
    std::ofstream(file()) << text;
    return load_compare_config(file(), overrides);
  }

  /// The message without the folder's path; empty when nothing is refused.
  std::string refusal(const std::string& text,
                      const std::vector<std::string>& overrides = {}) const {
    try {
      load_shared_run(load(text, overrides));
      return "";
    } catch (const ConfigError& error) {
      std::string message = error.what();
      const std::string prefix = folder_.path().string() + "/";
      for (size_t at = message.find(prefix); at != std::string::npos; at = message.find(prefix))
        message.erase(at, prefix.size());
      return message;
    }
  }

  std::filesystem::path file() const { return folder_.path() / "compare.toml"; }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

}  // namespace cleave::test
