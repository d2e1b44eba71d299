#include "host_process.h"

#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace cleave::test {

namespace {

// What write_run writes; odd sizes, uneven ignored tokens.
const std::vector<std::pair<std::string, std::string>> kKeys = {
    {"model.architecture", "\"qwen2\""},
    {"model.vocab_size", "131"},
    {"model.hidden_size", "24"},
    {"model.intermediate_size", "40"},
    {"model.num_hidden_layers", "3"},
    {"model.num_attention_heads", "3"},
    {"model.num_key_value_heads", "1"},
    {"data.path", "\"text.txt\""},
    {"data.sequence_length", "16"},
    {"data.ignore_token", "32"},
    {"train.steps", "20"},
    {"train.global_batch_size", "24"},
    {"train.micro_batch_size", "1"},
    {"optimizer.lr", "1e-3"},
    {"optimizer.epsilon", "1e-2"},
    {"optimizer.warmup_steps", "5"},
    {"communication.backend", "\"mpi\""},
    {"strategy.ddp.bucket_bytes", "20000"},
    {"metrics.directory", "\"metrics\""},
};

void write_text(const std::filesystem::path& file) {
  std::ofstream text(file, std::ios::binary);
  uint64_t state = 5;
  int token = 1;
  for (int i = 0; i < 20000; ++i) {  // a chain with three successors each, and runs of token 32
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    token = (3 * token + static_cast<int>((state >> 33) % 3)) % 127;
    text.put(static_cast<char>(i / 300 % 3 == 0 && (state >> 40) % 4 ? 32 : token));
  }
}

}  // namespace

int Outcome::count(const std::string& text) const {
  int times = 0;
  for (size_t at = output.find(text); at != std::string::npos; at = output.find(text, at + 1))
    ++times;
  return times;
}

std::string wait_until_gone(const std::string& processes) {
  return "for gone in " + processes +
         "; do while grep -qs '^State:.[^ZX]' /proc/$gone/task/*/status; do sleep 0.05; done; "
         "done\n";
}

Outcome run_command(const std::string& command, const std::filesystem::path& folder) {
  const TemporaryFolder session;
  const auto begin = std::chrono::steady_clock::now();
  const std::string shell = "cd '" + folder.string() + "' && TMPDIR='" + session.path().string() +
                            "' OMPI_MCA_btl_sm_backing_directory='" + session.path().string() +
                            "' CLEAVE_PROGRAMS='" CLEAVE_PROGRAMS "' timeout -k 5 120 " CLEAVE_ENV
                            " bash -c '" +
                            command + "' 2>&1";
  FILE* pipe = popen(shell.c_str(), "r");
  Outcome outcome{};
  std::array<char, 4096> buffer;
  while (size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.output.append(buffer.data(), n);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

std::filesystem::path write_run(const std::filesystem::path& folder,
                                const std::map<std::string, std::string>& changes) {
  write_text(folder / "text.txt");
  std::map<std::string, std::string> keys(kKeys.begin(), kKeys.end());
  for (const auto& [key, value] : changes) keys[key] = value;
  std::ofstream file(folder / "run.toml");
  for (const auto& [key, value] : keys)
    if (!value.empty()) file << key << " = " << value << "\n";
  return folder / "run.toml";
}

std::vector<std::string> metric(const std::filesystem::path& folder, const std::string& key) {
  std::ifstream file(folder / "metrics" / "metrics.jsonl");
  std::vector<std::string> values;
  for (std::string line; std::getline(file, line);)
    values.push_back(nlohmann::json::parse(line).at(key).dump());
  return values;
}

}  // namespace cleave::test
