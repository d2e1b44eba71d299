#include "huggingface/model_writer.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cleave/error.h"
#include "huggingface/json_file.h"

namespace cleave {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kChunk = 1 << 18;  // elements converted at once

/// An absolute path without a slash at the end, so that it has a parent and a name.
fs::path normalized(const fs::path& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// A new folder "<folder>.tmp-XXXXXX", readable by whom the user's mask lets.
fs::path make_temporary(const fs::path& folder) {
  std::string name = folder.string() + ".tmp-XXXXXX";
  if (!::mkdtemp(name.data()))
    throw RuntimeError(message(name, ": can't be created: ", std::strerror(errno),
                               "; check the folder's permissions and the disk"));
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::chmod(name.c_str(), 0777 & ~mask);
  return name;
}

}  // namespace

void check_export_folder(const fs::path& given) {
  const fs::path folder = normalized(given);
  std::error_code error;
  if (fs::exists(folder, error)) {
    const bool is_empty = fs::is_directory(folder, error) && fs::is_empty(folder, error);
    if (!is_empty || error)
      throw ConfigError(message(given.string(), ": is there already and not an empty folder; ",
                                "remove it, or name another folder for the export"));
  }
  fs::create_directories(folder.parent_path(), error);
  if (!error && ::access(folder.parent_path().c_str(), W_OK | X_OK) != 0)
    error = std::error_code(errno, std::generic_category());
  if (error)
    throw ConfigError(message(given.string(), ": can't be written: ", error.message(),
                              "; name another folder for the export"));
}

ModelWriter::ModelWriter(fs::path folder, ModelFiles files)
    : folder_(normalized(folder)), temporary_(make_temporary(folder_)), files_(std::move(files)) {
  plan_shards();
}

ModelWriter::~ModelWriter() {
  writer_.reset();
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void ModelWriter::plan_shards() {
  int64_t shard_bytes = 0;
  for (size_t i = 0; i < files_.tensors.size(); ++i) {
    const auto& [name, shape] = files_.tensors[i];
    const int64_t bytes = TensorEntry{name, files_.type, shape}.num_bytes();
    if (i == 0 || shard_bytes + bytes > files_.most_shard_bytes) {
      shard_begins_.push_back(i);
      shard_bytes = 0;
    }
    shard_bytes += bytes;
    total_bytes_ += bytes;
  }
}

std::string ModelWriter::shard_name(size_t shard) const {
  if (shard_begins_.size() == 1) return "model.safetensors";
  const auto digits = [](size_t number) {
    std::string text = std::to_string(number);
    return std::string(5 - std::min<size_t>(5, text.size()), '0') + text;
  };
  return message("model-", digits(shard + 1), "-of-", digits(shard_begins_.size()), ".safetensors");
}

void ModelWriter::open_shard(size_t shard) {
  const size_t end =
      shard + 1 < shard_begins_.size() ? shard_begins_[shard + 1] : files_.tensors.size();
  std::vector<TensorEntry> entries;
  for (size_t i = shard_begins_[shard]; i < end; ++i)
    entries.push_back({files_.tensors[i].name, files_.type, files_.tensors[i].shape});
  writer_ = std::make_unique<SafetensorsWriter>(
      temporary_ / shard_name(shard), entries,
      std::map<std::string, std::string>{{"format", "pt"}});  // transformers asks for it
}

void ModelWriter::append(std::span<const float> values) {
  CLEAVE_CHECK(next_tensor_ < files_.tensors.size(), "more tensors than announced");
  if (next_shard_ < shard_begins_.size() && shard_begins_[next_shard_] == next_tensor_) {
    if (writer_) writer_->finish();
    open_shard(next_shard_++);
  }
  const auto& [name, shape] = files_.tensors[next_tensor_++];
  const int64_t element_bytes = bytes_of(files_.type);
  const auto count = static_cast<int64_t>(values.size());
  const int64_t expected = TensorEntry{name, files_.type, shape}.num_bytes() / element_bytes;
  CLEAVE_CHECK(count == expected, name, " has ", count, " values, not ", expected);
  std::vector<std::byte> chunk(static_cast<size_t>(std::min(count, kChunk) * element_bytes));
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t n = std::min(kChunk, count - begin);
    from_float32(files_.type, values.data() + begin, n, chunk.data());
    writer_->append({chunk.data(), static_cast<size_t>(n * element_bytes)});
  }
}

std::string ModelWriter::index_text() const {
  Json index = {{"metadata", {{"total_size", total_bytes_}}}, {"weight_map", Json::object()}};
  size_t shard = 0;
  for (size_t i = 0; i < files_.tensors.size(); ++i) {
    if (shard + 1 < shard_begins_.size() && shard_begins_[shard + 1] == i) ++shard;
    index["weight_map"][files_.tensors[i].name] = shard_name(shard);
  }
  return index.dump(2) + '\n';
}

void ModelWriter::write_text(const std::string& name, const std::string& text) const {
  OutputFile file(temporary_ / name);
  file.append(text);
  file.sync();
  file.publish();
}

void ModelWriter::publish() {
  CLEAVE_CHECK(next_tensor_ == files_.tensors.size(), "tensor ", files_.tensors[next_tensor_].name,
               " is missing");
  if (writer_) writer_->finish();
  if (shard_begins_.size() > 1) write_text("model.safetensors.index.json", index_text());
  write_text("config.json", files_.config);
  sync_folder(temporary_);
  // what was computed is not thrown away for a name that was taken meanwhile
  const fs::path complete = std::exchange(temporary_, {});
  std::error_code error;
  fs::rename(complete, folder_, error);
  if (error)
    throw RuntimeError(message(folder_.string(), ": can't be made: ", error.message(),
                               "; the export is complete in ", complete.string(), ", rename it"));
  sync_folder(folder_.parent_path());
}

}  // namespace cleave
