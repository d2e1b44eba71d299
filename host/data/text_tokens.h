// A text file as tokens: every byte is one (vocabulary 256).
#pragma once

#include "data/dataset.h"
#include "data/mapped_file.h"

namespace cleave {

class TextTokens final : public TokenSource {
 public:
  explicit TextTokens(const std::filesystem::path& path) : file_(path) {}

  int64_t num_tokens() const override { return file_.size_bytes(); }
  void read(int64_t begin, std::span<int64_t> out) const override;
  int64_t largest_possible_token() const override { return 255; }

 private:
  MappedFile file_;
};

}  // namespace cleave
