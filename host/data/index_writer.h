// Writes a Megatron .idx for byte tokens whose documents lie one after the other in the .bin.
#pragma once

#include <cstdint>
#include <functional>

#include "data/output_file.h"

namespace cleave {

/// Memory does not grow with the number of documents: lengths are streamed to the file, pointers
/// and boundaries are derived from them at the end.
///
/// The format holds a length in 31 bits. A longer document becomes several sequences: full ones
/// and then a shorter one (maybe of length 0), so the lengths alone tell where documents end.
class IndexWriter {
 public:
  /// `file` is empty and outlives the writer.
  explicit IndexWriter(OutputFile& file);

  void add_document(int64_t num_tokens);
  int64_t num_documents() const { return num_documents_; }
  /// Completes the file; nothing is added after it.
  void finish();

 private:
  void add_sequence(int64_t num_tokens);
  void append_pointers();
  void append_boundaries();
  void write_header();
  void for_each_length(const std::function<void(int64_t sequence, int32_t length)>& visit);

  OutputFile& file_;
  int64_t num_sequences_ = 0;
  int64_t num_documents_ = 0;
};

}  // namespace cleave
