#include "huggingface/safetensors.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "cleave/error.h"
#include "huggingface/json_file.h"

namespace cleave {

namespace {

constexpr int64_t kPrefixBytes = 8;
constexpr int64_t kMostHeaderBytes = 100'000'000;  // the format's own limit
constexpr char kMetadata[] = "__metadata__";

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw ConfigError(message(where, ": ", what, "; write or download the file again"));
}

std::string tensor_place(const std::filesystem::path& path, const std::string& name) {
  return message(path.string(), ": tensor ", quote(name));
}

const Json& member(const std::string& where, const Json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end()) fail(where, message("has no ", key));
  return *found;
}

/// A list of integers from 0 to 2^63 - 1.
std::vector<int64_t> sizes_of(const std::string& where, const Json& entry, const char* key) {
  const Json& list = member(where, entry, key);
  std::vector<int64_t> sizes;
  if (!list.is_array()) fail(where, message(key, " = ", show(list), " is not a list"));
  for (const Json& item : list) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      fail(where, message(key, " = ", show(list), " is not a list of sizes below 2^63"));
    sizes.push_back(item.get<int64_t>());
  }
  return sizes;
}

ElementType type_of(const std::string& where, const Json& entry) {
  const Json& value = member(where, entry, "dtype");
  const auto type = value.is_string()
                        ? find_element_type(value.get_ref<const std::string&>())
                        : std::nullopt;
  if (!type) fail(where, message("dtype = ", show(value), " is not known"));
  return *type;
}

/// Of a tensor of this shape; nothing above 2^63 - 1.
std::optional<int64_t> product(const std::vector<int64_t>& shape, int64_t element_bytes) {
  int64_t bytes = element_bytes;
  for (const int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  return bytes;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return show(Json(shape));
}

/// The header's text, after its length has been checked.
std::string_view header_text(const MappedFile& file) {
  const std::string where = file.path().string();
  const int64_t most = std::min(kMostHeaderBytes, file.size_bytes() - kPrefixBytes);
  if (most < 0) fail(where, message("has ", file.size_bytes(), " bytes, too few for a header"));
  const auto length = file.load<uint64_t>(0);
  if (length > static_cast<uint64_t>(most))
    fail(where, message("header length ", length, " is out of range: the file has ",
                        file.size_bytes(), " bytes, a header at most ", kMostHeaderBytes));
  return {reinterpret_cast<const char*>(file.data()) + kPrefixBytes, length};
}

/// The pages that lie wholly in [begin, end), or all that touch it.
std::pair<std::byte*, size_t> pages(std::span<const std::byte> bytes, bool whole) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uintptr_t>(bytes.data()), end = begin + bytes.size();
  begin = (whole ? begin + page - 1 : begin) / page * page;
  end = (whole ? end : end + page - 1) / page * page;
  return {reinterpret_cast<std::byte*>(begin), end > begin ? end - begin : 0};
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  // without this the kernel reads up to 128 KiB around every page that is touched
  ::madvise(const_cast<std::byte*>(file_.data()), static_cast<size_t>(file_.size_bytes()),
            MADV_RANDOM);
  const std::string_view text = header_text(file_);
  const auto header_bytes = kPrefixBytes + static_cast<int64_t>(text.size());
  will_read({file_.data(), static_cast<size_t>(header_bytes)});
  parse_header(header_bytes);
  done_reading({file_.data(), static_cast<size_t>(header_bytes)});
}

void SafetensorsFile::parse_header(int64_t header_bytes) {
  const std::string where = path().string();
  const Json header = parse_json_object(message(where, ": header"), header_text(file_));
  const int64_t data_bytes = file_.size_bytes() - header_bytes;
  std::vector<std::pair<std::pair<int64_t, int64_t>, std::string>> ranges;
  for (const auto& [name, entry] : header.items()) {
    const std::string place = tensor_place(path(), name);
    if (!entry.is_object()) fail(place, message("is ", show(entry), ", not an object"));
    if (name == kMetadata) {
      for (const auto& [key, value] : entry.items())
        if (value.is_string()) metadata_[key] = value.get<std::string>();
      continue;
    }
    const ElementType type = type_of(place, entry);
    std::vector<int64_t> shape = sizes_of(place, entry, "shape");
    const auto offsets = sizes_of(place, entry, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      fail(place, message("data_offsets = ", shape_text(offsets), " is not begin and end"));
    if (offsets[1] > data_bytes)
      fail(place, message("ends at byte ", offsets[1], " of ", data_bytes,
                          ": the file is truncated or the offset wrong"));
    if (product(shape, bytes_of(type)) != offsets[1] - offsets[0])
      fail(place, message("has ", offsets[1] - offsets[0], " bytes, not those of shape ",
                          shape_text(shape), " in ", name_of(type)));
    const std::byte* begin = file_.data() + header_bytes + offsets[0];
    tensors_[name] = {type, std::move(shape), {begin, static_cast<size_t>(offsets[1] - offsets[0])}};
    ranges.push_back({{offsets[0], offsets[1]}, name});
  }
  std::sort(ranges.begin(), ranges.end());
  int64_t end = 0;
  for (const auto& [range, name] : ranges) {
    if (range.first != end)
      fail(tensor_place(path(), name),
           message("begins at byte ", range.first, ", but the one before it ends at ", end, ": ",
                   range.first < end ? "they overlap" : "there is a gap"));
    end = range.second;
  }
  if (end != data_bytes)
    fail(where, message("its last ", data_bytes - end, " bytes belong to no tensor"));
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

const TensorView* SafetensorsFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void SafetensorsFile::will_read(std::span<const std::byte> bytes) const {
  const auto [begin, length] = pages(bytes, false);
  if (length > 0) ::madvise(begin, length, MADV_WILLNEED);
}

void SafetensorsFile::done_reading(std::span<const std::byte> bytes) const {
  const auto [begin, length] = pages(bytes, true);
  if (length > 0) ::madvise(begin, length, MADV_DONTNEED);
}

int64_t TensorEntry::num_bytes() const {
  const auto bytes = product(shape, bytes_of(type));
  CLEAVE_CHECK(bytes, name, " has more than 2^63 - 1 bytes");
  return *bytes;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<TensorEntry>& entries,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  for (const TensorEntry& entry : entries) {
    CLEAVE_CHECK(!header.contains(entry.name), entry.name, " is there twice");
    const int64_t begin = remaining_bytes_;
    remaining_bytes_ += entry.num_bytes();
    header[entry.name] = {{"dtype", name_of(entry.type)},
                          {"shape", entry.shape},
                          {"data_offsets", {begin, remaining_bytes_}}};
  }
  std::string text = header.dump();
  text.append((kPrefixBytes - text.size() % kPrefixBytes) % kPrefixBytes, ' ');  // aligned tensors
  const auto length = static_cast<uint64_t>(text.size());
  file_.append({reinterpret_cast<const char*>(&length), sizeof(length)});
  file_.append(text);
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  remaining_bytes_ -= static_cast<int64_t>(bytes.size());
  CLEAVE_CHECK(remaining_bytes_ >= 0, file_.path().string(), " gets more bytes than its header says");
  file_.append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void SafetensorsWriter::finish() {
  CLEAVE_CHECK(remaining_bytes_ == 0, file_.path().string(), " lacks ", remaining_bytes_, " bytes");
  file_.sync();
  file_.publish();
}

}  // namespace cleave
