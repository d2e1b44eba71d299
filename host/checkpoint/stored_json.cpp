#include "checkpoint/stored_json.h"

#include "checkpoint/checksum.h"
#include "checkpoint/strict_object.h"
#include "cleave/error.h"

namespace cleave {

namespace {

constexpr int64_t kPrefixBytes = 8;  // a safetensors file begins with its header's length

/// Whether it is a plain name: nothing that leads out of the checkpoint's folder.
bool is_file_name(const std::string& name) {
  constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name[0] != '.' && name.find_first_not_of(kLetters) == std::string::npos;
}

std::string parse_file_name(StrictObject& object, const char* key) {
  std::string name = object.text(key);
  if (!is_file_name(name))
    fail_damaged(object.where(), message(key, " = ", quote(name), " is not a file's name"));
  return name;
}

}  // namespace

Json json_of(const StoredFile& file) {
  return {{"name", file.name},
          {"size_bytes", file.size_bytes},
          {"header_bytes", file.header_bytes},
          {"header_checksum", to_hex(file.header_checksum)}};
}

Json json_of(const StoredSlice& stored) {
  const Slice& slice = stored.slice;
  return {{"box_begin", slice.box.begin},
          {"box_end", slice.box.end},
          {"begin", slice.begin},
          {"end", slice.end},
          {"file", stored.file},
          {"offset_bytes", stored.offset_bytes},
          {"checksum", to_hex(stored.checksum)}};
}

StoredFile parse_file(const std::string& where, const Json& value) {
  StrictObject object(where, value);
  StoredFile file;
  file.name = parse_file_name(object, "name");
  file.size_bytes = object.integer("size_bytes", kPrefixBytes);
  file.header_bytes = object.integer("header_bytes", kPrefixBytes);
  file.header_checksum = object.checksum("header_checksum");
  object.finish();
  if (file.header_bytes > file.size_bytes)
    fail_damaged(
        where, message("a header of ", file.header_bytes, " bytes in a file of ", file.size_bytes));
  return file;
}

StoredSlice parse_slice(const std::string& where, const Json& value) {
  StrictObject object(where, value);
  StoredSlice stored;
  stored.slice.box.begin = object.sizes("box_begin");
  stored.slice.box.end = object.sizes("box_end");
  stored.slice.begin = object.integer("begin", 0);
  stored.slice.end = object.integer("end", 1);
  stored.file = parse_file_name(object, "file");
  stored.offset_bytes = object.integer("offset_bytes", kPrefixBytes);
  stored.checksum = object.checksum("checksum");
  object.finish();
  return stored;
}

}  // namespace cleave
