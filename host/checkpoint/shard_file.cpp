#include "checkpoint/shard_file.h"

#include <algorithm>
#include <map>

#include "checkpoint/checksum.h"
#include "checkpoint/stored_json.h"
#include "checkpoint/strict_object.h"
#include "cleave/error.h"
#include "huggingface/safetensors.h"

namespace cleave {

namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;
// enough to keep a disk busy; a slow one still lets go of a cancelled file within seconds
constexpr int64_t kMostPendingBytes = 4 * kPieceBytes;

std::vector<TensorEntry> entries_of(const std::vector<ShardPart>& parts) {
  std::vector<TensorEntry> entries;
  for (const ShardPart& part : parts) {
    CLEAVE_CHECK(static_cast<int64_t>(part.values.size()) == part.slice.num_elements(), part.name,
                 " has ", part.values.size(), " values for ", part.slice.num_elements());
    if (!part.values.empty())
      entries.push_back({part.name, ElementType::float32, part.slice.shape()});
  }
  return entries;
}

/// Returns the checksum of what it writes.
uint64_t write_values(SafetensorsWriter& writer, const std::filesystem::path& path,
                      std::span<const float> values, const std::atomic<bool>& cancelled) {
  Checksum checksum;
  for (auto bytes = std::as_bytes(values); !bytes.empty();) {
    if (cancelled) throw RuntimeError(message(path.string(), ": writing was cancelled"));
    const auto piece = bytes.first(std::min<size_t>(bytes.size(), kPieceBytes));
    checksum.append(piece);
    writer.append(piece);
    writer.push(kMostPendingBytes);
    bytes = bytes.subspan(piece.size());
  }
  return checksum.value();
}

WrittenShard write_parts(const std::filesystem::path& path, const std::vector<ShardPart>& parts,
                         const std::atomic<bool>& cancelled) {
  // "format": readers of other programs ask for it
  SafetensorsWriter writer(path, entries_of(parts), {{"format", "pt"}});
  const auto header_bytes = static_cast<int64_t>(writer.header().size());
  WrittenShard written{
      {path.filename().string(), header_bytes, header_bytes, checksum_of(writer.header())}, {}};
  for (const ShardPart& part : parts) {
    if (part.values.empty()) continue;
    const uint64_t checksum = write_values(writer, path, part.values, cancelled);
    written.slices.emplace_back(
        part.name, StoredSlice{part.slice, written.file.name, written.file.size_bytes, checksum});
    written.file.size_bytes += static_cast<int64_t>(part.values.size_bytes());
  }
  if (cancelled) throw RuntimeError(message(path.string(), ": writing was cancelled"));
  writer.finish();
  return written;
}

}  // namespace

std::string shard_file_name(int rank) {
  const std::string number = std::to_string(rank);
  return message("rank-", std::string(5 - std::min<size_t>(5, number.size()), '0'), number,
                 ".safetensors");
}

WrittenShard write_shard(const std::filesystem::path& folder, const std::string& name,
                         const std::vector<ShardPart>& parts, const std::atomic<bool>& cancelled) {
  try {
    return write_parts(folder / name, parts, cancelled);
  } catch (const ConfigError& error) {  // it can't be created: of no config any more
    throw RuntimeError(error.what());
  }
}

std::string to_text(const WrittenShard& shard) {
  Json slices = Json::array();
  for (const auto& [name, slice] : shard.slices)
    slices.push_back({{"name", name}, {"slice", json_of(slice)}});
  return Json{{"file", json_of(shard.file)}, {"slices", std::move(slices)}}.dump();
}

WrittenShard parse_shard(const std::string& text) {
  const std::string where = "a rank's part of a checkpoint";
  const Json root = parse_json_object(where, text);
  StrictObject object(where, root);
  WrittenShard shard;
  shard.file = parse_file(where, object.object("file"));
  for (const Json& item : object.list("slices")) {
    StrictObject slice(where, item);
    const std::string name = slice.text("name");
    shard.slices.emplace_back(name, parse_slice(message(where, ": ", name), slice.object("slice")));
    slice.finish();
  }
  object.finish();
  return shard;
}

void add_shards(Manifest& manifest, const std::vector<WrittenShard>& shards) {
  std::map<std::string, StoredTensor*> tensors;
  for (StoredTensor& tensor : manifest.tensors) tensors[tensor.name] = &tensor;
  for (const WrittenShard& shard : shards) {
    manifest.files.push_back(shard.file);
    for (const auto& [name, slice] : shard.slices) {
      const auto tensor = tensors.find(name);
      CLEAVE_CHECK(tensor != tensors.end(), "no tensor ", name, " in the manifest");
      tensor->second->slices.push_back(slice);
    }
  }
}

}  // namespace cleave
