// `host prepare`: text files -> Megatron .bin/.idx.
#pragma once

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

namespace cleave {

struct PrepareRequest {
  std::vector<std::filesystem::path> inputs;  ///< text files; each is one document unless split
  std::filesystem::path output;               ///< prefix of .bin and .idx
  /// Lines equal to this (before \n or \r\n) end a document and are left out, as the end of a file
  /// ends one; two in a row make an empty document. Empty: one document a file.
  std::string document_separator;
};

/// Tokens are bytes (vocabulary 256, dtype uint8). Writes <prefix>.bin and .idx through temporary
/// names, so an interrupted run leaves nothing half-written (at most <prefix>.bin.tmp and .idx.tmp,
/// which the next run writes over). Memory does not grow with the input. An older pair is replaced
/// at the end. Progress and a summary go to `out`.
/// Throws ConfigError for inputs and outputs that can't be used, RuntimeError when the disk fails.
void prepare(const PrepareRequest& request, std::ostream& out);

}  // namespace cleave
