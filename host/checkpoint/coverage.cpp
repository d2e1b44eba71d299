#include "checkpoint/coverage.h"

#include <algorithm>
#include <map>
#include <set>

#include "checkpoint/strict_object.h"
#include "cleave/error.h"

namespace cleave {

namespace {

constexpr int64_t kElementBytes = sizeof(float);

/// Elements of the shape; nothing when their bytes are more than 2^63 - 1.
std::optional<int64_t> num_elements_of(const std::vector<int64_t>& shape) {
  int64_t bytes = kElementBytes;
  for (const int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  return bytes / kElementBytes;
}

bool is_inside(const Slice& slice, const std::vector<int64_t>& shape) {
  const Box& box = slice.box;
  if (box.begin.size() != shape.size() || box.end.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d)
    if (box.begin[d] > box.end[d] || box.end[d] > shape[d]) return false;
  return slice.begin < slice.end && slice.end <= box.num_elements();
}

bool overlap(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.begin.size(); ++d)
    if (a.end[d] <= b.begin[d] || b.end[d] <= a.begin[d]) return false;
  return true;
}

bool overlap(const Slice& a, const Slice& b) {
  const std::vector<Box> others = boxes_of(b);
  for (const Box& box : boxes_of(a))
    for (const Box& other : others)
      if (overlap(box, other)) return true;
  return false;
}

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

/// Whether ranges of equal boxes have elements in common; sorts them.
bool overlap(Ranges& ranges) {
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) return true;
  return false;
}

bool overlap(const Box& a, const Ranges& ranges_a, const Box& b, const Ranges& ranges_b) {
  if (!overlap(a, b)) return false;
  for (const auto& [begin_a, end_a] : ranges_a)
    for (const auto& [begin_b, end_b] : ranges_b)
      if (overlap(Slice{a, begin_a, end_a}, Slice{b, begin_b, end_b})) return true;
  return false;
}

bool overlap(const std::vector<StoredSlice>& slices) {
  std::map<std::pair<std::vector<int64_t>, std::vector<int64_t>>, size_t> places;
  std::vector<std::pair<Box, Ranges>> boxes;
  for (const auto& [slice, file, offset, checksum] : slices) {
    const auto [place, is_new] =
        places.emplace(std::pair(slice.box.begin, slice.box.end), boxes.size());
    if (is_new) boxes.emplace_back(slice.box, Ranges());
    boxes[place->second].second.emplace_back(slice.begin, slice.end);
  }
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (overlap(boxes[i].second)) return true;
    for (size_t j = 0; j < i; ++j)
      if (overlap(boxes[i].first, boxes[i].second, boxes[j].first, boxes[j].second)) return true;
  }
  return false;
}

void check_tensor(const std::string& where, const StoredTensor& tensor) {
  const auto all = num_elements_of(tensor.shape);
  if (!all) fail_damaged(where, message("shape ", show(tensor.shape), " has over 2^63 - 1 bytes"));
  int64_t missing = *all;
  for (const StoredSlice& stored : tensor.slices) {
    const Slice& slice = stored.slice;
    if (!is_inside(slice, tensor.shape))
      fail_damaged(where, message("elements ", slice.begin, " to ", slice.end, " of the box from ",
                                  show(slice.box.begin), " to ", show(slice.box.end),
                                  " lie outside of shape ", show(tensor.shape)));
    missing -= slice.num_elements();
    if (missing < 0) fail_damaged(where, message("its slices have more than ", *all, " elements"));
  }
  if (missing > 0)
    fail_damaged(where, message("its slices leave ", missing, " of ", *all, " elements out"));
  if (overlap(tensor.slices)) fail_damaged(where, "two of its slices overlap");
}

/// What a file holds, by offset: begin and end of each slice.
using FileRanges = std::map<std::string, Ranges>;

void add_ranges(const std::string& where, const StoredTensor& tensor, FileRanges& files) {
  for (const StoredSlice& stored : tensor.slices) {
    const auto file = files.find(stored.file);
    if (file == files.end())
      fail_damaged(where, message("file ", quote(stored.file), " is not in the list of files"));
    int64_t end = 0;
    if (__builtin_add_overflow(stored.offset_bytes, stored.slice.num_elements() * kElementBytes,
                               &end))
      fail_damaged(where, message("offset_bytes = ", stored.offset_bytes, " is out of range"));
    file->second.emplace_back(stored.offset_bytes, end);
  }
}

void check_file(const std::string& where, const StoredFile& file, Ranges& ranges) {
  std::sort(ranges.begin(), ranges.end());
  int64_t at = file.header_bytes;
  for (const auto& [begin, end] : ranges) {
    if (begin != at)
      fail_damaged(where, message("a slice begins at byte ", begin, ", not at ", at,
                                  " where the one before it ends"));
    at = end;
  }
  if (at != file.size_bytes)
    fail_damaged(where, message("its slices end at byte ", at, " of ", file.size_bytes));
}

}  // namespace

void check_coverage(const std::string& where, const Manifest& manifest) {
  FileRanges files;
  int64_t total = 0;
  for (const StoredFile& file : manifest.files) {
    if (!files.emplace(file.name, Ranges()).second)
      fail_damaged(where, message("file ", quote(file.name), " is there twice"));
    if (__builtin_add_overflow(total, file.size_bytes, &total))
      fail_damaged(where, "the files have over 2^63 - 1 bytes");
  }
  std::set<std::string> names;
  for (const StoredTensor& tensor : manifest.tensors) {
    const std::string place = message(where, ": tensor ", quote(tensor.name));
    if (!names.insert(tensor.name).second) fail_damaged(place, "is there twice");
    check_tensor(place, tensor);
    add_ranges(place, tensor, files);
  }
  for (const StoredFile& file : manifest.files)
    check_file(message(where, ": file ", quote(file.name)), file, files[file.name]);
}

}  // namespace cleave
