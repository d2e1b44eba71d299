// A JSON object whose keys are all known: what is missing, unknown or of another type is refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "huggingface/json_file.h"

namespace cleave {

/// ConfigError for a file of a checkpoint that is not as it was written; `what` says how.
[[noreturn]] void fail_damaged(const std::string& where, const std::string& what);

/// Each method throws a ConfigError that begins with `where` and names the key.
class StrictObject {
 public:
  /// `value` outlives it. ConfigError when it is no object.
  StrictObject(std::string where, const Json& value);

  const Json& at(const char* key);
  int64_t integer(const char* key, int64_t least);
  uint64_t unsigned_integer(const char* key);
  bool flag(const char* key);
  std::string text(const char* key);
  uint64_t checksum(const char* key);
  std::vector<int64_t> sizes(const char* key);  ///< at least 0 each
  std::vector<std::string> texts(const char* key);
  const Json& list(const char* key);
  const Json& object(const char* key);
  /// After the last key: ConfigError when there is another.
  void finish() const;

  const std::string& where() const { return where_; }

 private:
  [[noreturn]] void fail(const char* key, const char* wanted) const;

  std::string where_;
  const Json& value_;
  std::vector<std::string> known_;
};

}  // namespace cleave
