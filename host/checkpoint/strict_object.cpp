#include "checkpoint/strict_object.h"

#include <algorithm>

#include "checkpoint/checksum.h"
#include "cleave/error.h"

namespace cleave {

void fail_damaged(const std::string& where, const std::string& what) {
  throw ConfigError(message(where, ": ", what, "; the checkpoint is damaged, use another"));
}

StrictObject::StrictObject(std::string where, const Json& value)
    : where_(std::move(where)), value_(value) {
  if (!value.is_object()) fail_damaged(where_, message(show(value), " is not an object"));
}

void StrictObject::fail(const char* key, const char* wanted) const {
  fail_damaged(where_, message(key, " = ", show(value_[key]), " is not ", wanted));
}

const Json& StrictObject::at(const char* key) {
  const auto found = value_.find(key);
  if (found == value_.end()) fail_damaged(where_, message("has no ", key));
  known_.emplace_back(key);
  return *found;
}

int64_t StrictObject::integer(const char* key, int64_t least) {
  const Json& value = at(key);
  const bool is_small = !value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX;
  if (!value.is_number_integer() || !is_small || value.get<int64_t>() < least)
    fail(key, message("an integer from ", least, " to 2^63 - 1").c_str());
  return value.get<int64_t>();
}

uint64_t StrictObject::unsigned_integer(const char* key) {
  const Json& value = at(key);
  if (!value.is_number_unsigned()) fail(key, "an integer from 0 to 2^64 - 1");
  return value.get<uint64_t>();
}

bool StrictObject::flag(const char* key) {
  const Json& value = at(key);
  if (!value.is_boolean()) fail(key, "true or false");
  return value.get<bool>();
}

std::string StrictObject::text(const char* key) {
  const Json& value = at(key);
  if (!value.is_string()) fail(key, "a text");
  return value.get<std::string>();
}

uint64_t StrictObject::checksum(const char* key) {
  const auto value = parse_hex(text(key));
  if (!value) fail(key, "a checksum of 16 hexadecimal digits");
  return *value;
}

std::vector<int64_t> StrictObject::sizes(const char* key) {
  std::vector<int64_t> sizes;
  for (const Json& item : list(key)) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > INT64_MAX)
      fail(key, "a list of integers from 0 to 2^63 - 1");
    sizes.push_back(item.get<int64_t>());
  }
  return sizes;
}

std::vector<std::string> StrictObject::texts(const char* key) {
  std::vector<std::string> texts;
  for (const Json& item : list(key)) {
    if (!item.is_string()) fail(key, "a list of texts");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

const Json& StrictObject::list(const char* key) {
  const Json& value = at(key);
  if (!value.is_array()) fail(key, "a list");
  return value;
}

const Json& StrictObject::object(const char* key) {
  const Json& value = at(key);
  if (!value.is_object()) fail(key, "an object");
  return value;
}

void StrictObject::finish() const {
  for (const auto& [key, value] : value_.items())
    if (std::find(known_.begin(), known_.end(), key) == known_.end())
      fail_damaged(where_, message("has an unknown key ", quote(key)));
}

}  // namespace cleave
