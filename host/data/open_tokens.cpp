// Chooses the token source that a path names, and says what to write when it names none.
#include <string>

#include "cleave/error.h"
#include "data/dataset.h"
#include "data/index_file.h"
#include "data/indexed_tokens.h"
#include "data/text_tokens.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Both files of the pair are missing: the path is most likely meant in another way.
[[noreturn]] void fail_no_pair(const fs::path& prefix) {
  std::string advice = "give the prefix of a .bin/.idx pair or a file that ends in .txt";
  std::error_code ignored;
  if (is_there(with_suffix(prefix, ".txt"))) {
    advice = message("write \"", with_suffix(prefix, ".txt").string(), "\" to read that text file");
  } else if (fs::is_regular_file(prefix, ignored)) {
    advice = "convert this file with host prepare, or name it *.txt to read it as bytes";
  } else if (fs::is_directory(prefix, ignored)) {
    advice =
        "this is a folder, give the prefix of a .bin/.idx pair in it or a file that ends in "
        ".txt";
  }
  throw ConfigError(message(prefix.string(), ": there is neither ",
                            with_suffix(prefix, ".bin").string(), " nor ",
                            with_suffix(prefix, ".idx").string(), "; ", advice));
}

}  // namespace

std::unique_ptr<TokenSource> open_tokens(const std::filesystem::path& path) {
  if (path.extension() == ".txt") return std::make_unique<TextTokens>(path);
  if (path.extension() == ".bin" || path.extension() == ".idx") {
    fs::path prefix = path;
    prefix.replace_extension();
    throw ConfigError(message(path.string(), ": is one file of a .bin/.idx pair; write \"",
                              prefix.string(), "\", the prefix of both"));
  }
  const fs::path bin = with_suffix(path, ".bin");
  const fs::path idx = with_suffix(path, ".idx");
  if (!is_there(bin) && !is_there(idx)) fail_no_pair(path);
  return std::make_unique<IndexedTokens>(bin, idx);
}

}  // namespace cleave
