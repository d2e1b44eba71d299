// A run that is right, and ways to spoil it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace cleave {

/// Table -> key -> value as TOML; prints as one [table] after the other.
using Tables = std::map<std::string, std::map<std::string, std::string>>;

/// Every required key, and a few more.
Tables complete_run();
std::string to_text(const Tables& tables);

/// A file that is removed with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

RunConfig load(const std::string& text, const std::vector<std::string>& overrides = {});
RunConfig load(const Tables& tables, const std::vector<std::string>& overrides = {});

/// The ConfigError's message with the file's folder cut off ("run.toml:3:1: ..."); "" when it
/// loads.
std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {});
std::string error_of(const Tables& tables, const std::vector<std::string>& overrides = {});

}  // namespace cleave
