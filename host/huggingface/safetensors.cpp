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
  const auto type =
      value.is_string() ? find_element_type(value.get_ref<const std::string&>()) : std::nullopt;
  if (!type) fail(where, message("dtype = ", show(value), " is not known"));
  return *type;
}

/// Nothing above 2^63 - 1.
std::optional<int64_t> num_bytes_of(const std::vector<int64_t>& shape, ElementType type) {
  int64_t bytes = bytes_of(type);
  for (const int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  return bytes;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return show(Json(shape));
}

TensorView parse_tensor(const std::string& where, const Json& entry,
                        std::span<const std::byte> data) {
  const ElementType type = type_of(where, entry);
  std::vector<int64_t> shape = sizes_of(where, entry, "shape");
  const auto offsets = sizes_of(where, entry, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    fail(where, message("data_offsets = ", shape_text(offsets), " is not begin and end"));
  const int64_t begin = offsets[0], size = offsets[1] - offsets[0];
  if (offsets[1] > static_cast<int64_t>(data.size()))
    fail(where, message("ends at byte ", offsets[1], " of ", data.size(),
                        ": the file is truncated or the offset wrong"));
  if (num_bytes_of(shape, type) != size)
    fail(where, message("has ", size, " bytes, not those of shape ", shape_text(shape), " in ",
                        name_of(type)));
  return {type, std::move(shape), data.subspan(begin, size)};
}

std::map<std::string, std::string> texts_of(const Json& object) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : object.items())
    if (value.is_string()) texts[key] = value.get<std::string>();
  return texts;
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
  const std::span<const std::byte> data(file_.data() + header_bytes,
                                        static_cast<size_t>(file_.size_bytes() - header_bytes));
  const Json header = parse_json_object(message(path().string(), ": header"), header_text(file_));
  for (const auto& [name, entry] : header.items()) {
    const std::string where = tensor_place(path(), name);
    if (!entry.is_object()) fail(where, message("is ", show(entry), ", not an object"));
    if (name == kMetadata)
      metadata_ = texts_of(entry);
    else
      tensors_[name] = parse_tensor(where, entry, data);
  }
  check_coverage(data);
}

// Without gaps, each byte belongs to one tensor, and a length that is wrong anywhere shows.
void SafetensorsFile::check_coverage(std::span<const std::byte> data) const {
  std::vector<std::pair<std::pair<const std::byte*, size_t>, std::string>> ranges;
  for (const auto& [name, tensor] : tensors_)
    ranges.push_back({{tensor.bytes.data(), tensor.bytes.size()}, name});
  std::sort(ranges.begin(), ranges.end());
  const std::byte* end = data.data();
  for (const auto& [range, name] : ranges) {
    const auto& [begin, size] = range;
    if (begin != end)
      fail(tensor_place(path(), name),
           message("begins at byte ", begin - data.data(), ", but the one before it ends at ",
                   end - data.data(), ": ", begin < end ? "they overlap" : "there is a gap"));
    end = begin + size;
  }
  if (const auto rest = data.data() + data.size() - end; rest != 0)
    fail(path().string(), message("its last ", rest, " bytes belong to no tensor"));
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
  const auto bytes = num_bytes_of(shape, type);
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
  header_ = std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
  file_.append(header_);
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  remaining_bytes_ -= static_cast<int64_t>(bytes.size());
  CLEAVE_CHECK(remaining_bytes_ >= 0, file_.path().string(),
               " gets more bytes than its header says");
  file_.append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void SafetensorsWriter::finish() {
  CLEAVE_CHECK(remaining_bytes_ == 0, file_.path().string(), " lacks ", remaining_bytes_, " bytes");
  file_.sync();
  file_.publish();
}

}  // namespace cleave
