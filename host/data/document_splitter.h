// Cuts a stream of text into documents at separator lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/index_writer.h"
#include "data/output_file.h"

namespace cleave {

/// Writes the bytes of the documents to `tokens` and their lengths to `index`. A line equal to the
/// separator (its end may be \n or \r\n) ends a document and is not part of it; two in a row make
/// an empty document. The end of a file ends a document too. A line may be of any length: only what
/// may still become a separator is held back.
class DocumentSplitter {
 public:
  /// Empty separator: one document a file.
  DocumentSplitter(std::string separator, OutputFile& tokens, IndexWriter& index);

  void feed(std::string_view block);
  void end_file();

 private:
  /// Both take bytes from the front of `block`.
  void pass_line(std::string_view& block);
  void match_separator(std::string_view& block);
  void emit(std::string_view bytes);
  void end_document();
  bool holds_separator() const;

  std::string separator_;
  OutputFile& tokens_;
  IndexWriter& index_;
  int64_t document_tokens_ = 0;
  bool may_be_separator_ = true;  ///< so far, the line equals the beginning of a separator line
  std::string held_;              ///< that line; not written yet
};

}  // namespace cleave
