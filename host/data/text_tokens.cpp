#include "data/text_tokens.h"

#include "cleave/error.h"

namespace cleave {

void TextTokens::read(int64_t begin, std::span<int64_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  CLEAVE_CHECK(begin >= 0 && count <= num_tokens() && begin <= num_tokens() - count, "tokens [",
               begin, ", ", begin, " + ", count, ") of ", num_tokens());
  const std::byte* source = file_.data() + begin;
  for (int64_t i = 0; i < count; ++i) out[i] = std::to_integer<int64_t>(source[i]);
}

}  // namespace cleave
