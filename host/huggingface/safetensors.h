// One .safetensors file: u64 header length, JSON header, tensors row-major without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/mapped_file.h"
#include "data/output_file.h"
#include "huggingface/element_type.h"

namespace cleave {

/// A tensor of an open file; the bytes are mapped, not read, and need not be aligned.
struct TensorView {
  ElementType type;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;

  int64_t num_elements() const { return static_cast<int64_t>(bytes.size()) / bytes_of(type); }
};

class SafetensorsFile {
 public:
  /// Maps the file and checks all of its header. ConfigError with file and tensor: header length
  /// out of range, not JSON, a key twice, unknown dtype, shape and bytes that contradict each
  /// other, offsets that overlap, leave a gap or lie outside of the file.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  std::vector<std::string> names() const;  ///< sorted
  /// nullptr when there is no such tensor.
  const TensorView* find(const std::string& name) const;
  /// The header's __metadata__.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// Asks for a part of the file ahead of its use: nothing else is read in advance.
  void will_read(std::span<const std::byte> bytes) const;
  /// Gives the memory of a part that has been used back to the kernel.
  void done_reading(std::span<const std::byte> bytes) const;

 private:
  void parse_header(int64_t header_bytes);
  void check_coverage(std::span<const std::byte> data) const;

  MappedFile file_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// What a tensor in a file that is about to be written will be.
struct TensorEntry {
  std::string name;
  ElementType type;
  std::vector<int64_t> shape;

  int64_t num_bytes() const;
};

/// Writes one file, tensor after tensor; appears under its name when it is complete.
class SafetensorsWriter {
 public:
  /// Writes the header. ConfigError when the folder can't be written.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorEntry>& entries,
                    const std::map<std::string, std::string>& metadata);

  /// All bytes before the first tensor.
  const std::string& header() const { return header_; }
  /// The tensors' bytes in the order of the entries, in pieces of any size.
  void append(std::span<const std::byte> bytes);
  /// OutputFile's.
  void push(int64_t most_pending_bytes) { file_.push(most_pending_bytes); }
  /// After all tensors: the file is on the disk and has its name.
  void finish();

 private:
  OutputFile file_;
  std::string header_;
  int64_t remaining_bytes_ = 0;
};

}  // namespace cleave
