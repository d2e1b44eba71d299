#include "checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <tuple>
#include <vector>

#include "checkpoint/checksum.h"
#include "checkpoint/input_file.h"
#include "checkpoint/strict_object.h"
#include "cleave/error.h"

namespace cleave {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kElementBytes = sizeof(float);
constexpr int64_t kBufferBytes = int64_t{1} << 20;
constexpr int64_t kMostManifestBytes = int64_t{1} << 30;
constexpr int64_t kWidestGapBytes = 4096;  // a page: reading over it costs less than a second read
constexpr size_t kMostRuns = 8192;

/// Copies runs of a file, with one read for those that are close to each other.
class RunReader {
 public:
  RunReader(const InputFile& file, float* out) : file_(file), out_(out) {}

  /// `offset` in the file, `to` in elements of `out`. finish() reads the last ones.
  void add(int64_t offset, int64_t to, int64_t count) {
    const int64_t end = offset + count * kElementBytes;
    const bool is_near = !runs_.empty() && offset >= end_ && offset - end_ <= kWidestGapBytes &&
                         end - runs_[0].offset <= kBufferBytes && runs_.size() < kMostRuns;
    if (!is_near) finish();
    runs_.push_back({offset, to, count});
    end_ = end;
  }

  void finish() {
    if (runs_.size() == 1) {
      file_.read(runs_[0].offset, bytes_of(runs_[0]));
    } else if (!runs_.empty()) {
      const int64_t begin = runs_[0].offset;
      buffer_.resize(static_cast<size_t>(end_ - begin));
      file_.read(begin, buffer_);
      for (const Run& run : runs_) {
        const auto bytes = bytes_of(run);
        std::memcpy(bytes.data(), buffer_.data() + (run.offset - begin), bytes.size());
      }
    }
    runs_.clear();
  }

 private:
  struct Run {
    int64_t offset, to, count;
  };
  std::span<std::byte> bytes_of(const Run& run) const {
    return std::as_writable_bytes(std::span(out_ + run.to, static_cast<size_t>(run.count)));
  }

  const InputFile& file_;
  float* out_;
  std::vector<Run> runs_;
  int64_t end_ = 0;  // of the last run, in the file
  std::vector<std::byte> buffer_;
};

/// Bytes of a file whose checksum the manifest has.
struct Checked {
  std::string file;
  int64_t begin;
  int64_t end;
  uint64_t checksum;
  std::string content;  // for the message
};

Checked header_of(const StoredFile& file) {
  return {file.name, 0, file.header_bytes, file.header_checksum, "its header"};
}

Checked range_of(const std::string& tensor, const StoredSlice& stored) {
  return {stored.file, stored.offset_bytes,
          stored.offset_bytes + stored.slice.num_elements() * kElementBytes, stored.checksum,
          tensor};
}

std::vector<Checked> checked_ranges(const Manifest& manifest) {
  std::vector<Checked> ranges;
  for (const StoredFile& file : manifest.files) ranges.push_back(header_of(file));
  for (const StoredTensor& tensor : manifest.tensors)
    for (const StoredSlice& stored : tensor.slices) ranges.push_back(range_of(tensor.name, stored));
  std::sort(ranges.begin(), ranges.end(), [](const Checked& a, const Checked& b) {
    return std::tie(a.file, a.begin) < std::tie(b.file, b.begin);
  });
  return ranges;
}

void check_range(const InputFile& file, const Checked& range, std::span<std::byte> buffer) {
  Checksum checksum;
  for (int64_t at = range.begin; at < range.end;) {
    const auto piece =
        buffer.first(static_cast<size_t>(std::min<int64_t>(range.end - at, std::ssize(buffer))));
    file.read(at, piece);
    checksum.append(piece);
    at += std::ssize(piece);
  }
  if (checksum.value() == range.checksum) return;
  fail_damaged(
      message(file.path().string(), ": bytes ", range.begin, " to ", range.end, " (", range.content,
              ")"),
      message("have checksum ", to_hex(checksum.value()), ", not ", to_hex(range.checksum)));
}

}  // namespace

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  std::error_code error;
  if (!fs::exists(path, error))
    throw ConfigError(message(folder.string(), ": is no complete checkpoint: it has no ",
                              kManifestName, "; give the folder of a checkpoint"));
  return parse_manifest(path.string(), read_text(path, kMostManifestBytes));
}

CheckpointReader::CheckpointReader(fs::path folder)
    : folder_(std::move(folder)), manifest_(read_manifest(folder_)) {
  for (const StoredFile& stored : manifest_.files) {
    const InputFile file(folder_ / stored.name);
    if (file.size_bytes() != stored.size_bytes)
      fail_damaged(file.path().string(), message("has ", file.size_bytes(), " bytes, not ",
                                                 stored.size_bytes, " as the manifest says"));
  }
}

void CheckpointReader::verify(int part, int parts) const {
  CLEAVE_CHECK(part >= 0 && part < parts, "part ", part, " of ", parts);
  const int64_t part_bytes = manifest_.size_bytes() / parts + 1;
  std::vector<std::byte> buffer(kBufferBytes);
  std::optional<InputFile> file;
  int64_t before_bytes = 0;
  for (const Checked& range : checked_ranges(manifest_)) {
    const int64_t its_part = before_bytes / part_bytes;
    before_bytes += range.end - range.begin;
    if (its_part != part) continue;
    const fs::path path = folder_ / range.file;
    if (!file || file->path() != path) file.emplace(path);
    check_range(*file, range, buffer);
  }
}

void verify_shard(const fs::path& folder, const WrittenShard& shard) {
  const InputFile file(folder / shard.file.name);
  std::vector<std::byte> buffer(kBufferBytes);
  check_range(file, header_of(shard.file), buffer);
  for (const auto& [name, stored] : shard.slices) check_range(file, range_of(name, stored), buffer);
}

void CheckpointReader::read(const std::string& name, const Slice& slice, float* out) const {
  const StoredTensor* tensor = manifest_.find(name);
  CLEAVE_CHECK(tensor, folder_.string(), " has no tensor ", name);
  for (const StoredSlice& stored : tensor->slices) {
    std::optional<InputFile> file;  // opened when something of it is needed
    std::optional<RunReader> reader;
    for_each_common_run(stored.slice, slice, [&](const CommonRun& run) {
      if (!file) reader.emplace(file.emplace(folder_ / stored.file), out);
      reader->add(stored.offset_bytes + run.from * kElementBytes, run.to, run.count);
    });
    if (reader) reader->finish();
  }
}

}  // namespace cleave
