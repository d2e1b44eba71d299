// A temporary folder, and Megatron pairs built by hand so that tests can bend every field.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cleave/error.h"
#include "data/dataset.h"

namespace cleave::test {

class DataTest : public ::testing::Test {
 protected:
  DataTest() {
    std::string name = (std::filesystem::temp_directory_path() / "cleave_data_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~DataTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

 private:
  std::filesystem::path folder_;
};

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// The fields of an .idx as the file holds them, consistent or not.
struct Index {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  uint64_t version = 1;
  uint8_t token_type = 8;
  std::vector<int32_t> lengths = {};
  std::vector<int64_t> pointers = {};
  std::vector<int64_t> boundaries = {};
  std::string modes = {};

  std::string bytes() const {
    const std::vector<uint64_t> counts = {lengths.size(), boundaries.size()};
    return magic + bytes_of<uint64_t>({version}) + bytes_of<uint8_t>({token_type}) +
           bytes_of(counts) + bytes_of(lengths) + bytes_of(pointers) + bytes_of(boundaries) + modes;
  }
};

/// One sequence a document, contiguous, `item_bytes` a token.
inline Index make_index(const std::vector<int32_t>& lengths, uint8_t token_type,
                        int64_t item_bytes) {
  Index index{.token_type = token_type, .lengths = lengths, .boundaries = {0}};
  int64_t pointer = 0;
  for (const int32_t length : lengths) {
    index.pointers.push_back(pointer);
    index.boundaries.push_back(static_cast<int64_t>(index.pointers.size()));
    pointer += length * item_bytes;
  }
  return index;
}

inline void write_pair(const std::filesystem::path& prefix, const Index& index,
                       const std::string& bin) {
  write_file(prefix.string() + ".idx", index.bytes());
  write_file(prefix.string() + ".bin", bin);
}

inline std::vector<int64_t> read_tokens(const TokenSource& tokens, int64_t begin, int64_t count) {
  std::vector<int64_t> out(static_cast<size_t>(count));
  tokens.read(begin, out);
  return out;
}

inline std::vector<int64_t> all_tokens(const TokenSource& tokens) {
  return read_tokens(tokens, 0, tokens.num_tokens());
}

/// The message of the ConfigError that `action` throws; "" when it throws none.
template <typename Action>
std::string config_error(Action&& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// `text` holds every one of `parts`.
inline ::testing::AssertionResult holds(const std::string& text,
                                        const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace cleave::test
