#include "data/document_splitter.h"

#include <utility>

namespace cleave {

DocumentSplitter::DocumentSplitter(std::string separator, OutputFile& tokens, IndexWriter& index)
    : separator_(std::move(separator)), tokens_(tokens), index_(index) {}

void DocumentSplitter::feed(std::string_view block) {
  if (separator_.empty()) return emit(block);
  while (!block.empty()) {
    if (may_be_separator_) {
      match_separator(block);
    } else {
      pass_line(block);
    }
  }
}

void DocumentSplitter::pass_line(std::string_view& block) {
  const size_t newline = block.find('\n');
  may_be_separator_ = newline != std::string_view::npos;
  const std::string_view line = block.substr(0, may_be_separator_ ? newline + 1 : newline);
  emit(line);
  block.remove_prefix(line.size());
}

void DocumentSplitter::match_separator(std::string_view& block) {
  const char next = block.front();
  block.remove_prefix(1);
  if (next == '\n' && holds_separator()) {
    held_.clear();
    end_document();
    return;
  }
  held_ += next;
  const bool fits = held_.size() <= separator_.size()
                        ? separator_.starts_with(held_)
                        : held_.size() == separator_.size() + 1 && next == '\r';
  if (fits) return;
  emit(held_);
  held_.clear();
  may_be_separator_ = next == '\n';
}

bool DocumentSplitter::holds_separator() const {
  const std::string_view held = held_;
  return held == separator_ ||
         (held.ends_with('\r') && held.substr(0, held.size() - 1) == separator_);
}

void DocumentSplitter::emit(std::string_view bytes) {
  tokens_.append(bytes);
  document_tokens_ += static_cast<int64_t>(bytes.size());
}

void DocumentSplitter::end_document() {
  index_.add_document(document_tokens_);
  document_tokens_ = 0;
}

void DocumentSplitter::end_file() {
  if (!separator_.empty() && holds_separator()) {
    end_document();
  } else {
    emit(held_);
  }
  held_.clear();
  may_be_separator_ = true;
  if (document_tokens_ > 0) end_document();
}

}  // namespace cleave
