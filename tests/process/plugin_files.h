// Copies of the fixture plugins, changed at will.
#pragma once

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "support/temporary_folder.h"

namespace cleave {

inline std::filesystem::path fixture(const std::string& kind, const std::string& name) {
  return std::filesystem::path(FIXTURE_FOLDER) / ("libcleave_" + kind + "_" + name + ".so");
}

inline std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void write_file(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

/// Changes a field of the ELF header at the front of `bytes`.
template <typename Field>
void set_header(std::string& bytes, Field Elf64_Ehdr::*field, Field value) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.*field = value;
  std::memcpy(bytes.data(), &header, sizeof header);
}

}  // namespace cleave
