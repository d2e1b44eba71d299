#include "core/shared_text.h"

#include <ATen/ATen.h>

#include <cstring>
#include <numeric>

#include "cleave/error.h"

namespace cleave {

std::vector<std::string> gather_texts(Comm& world, const std::string& mine) {
  const auto length = static_cast<int64_t>(mine.size());
  at::Tensor lengths = at::empty({world.size()}, at::kLong);
  world.all_gather(lengths, at::full({1}, length, at::kLong)).wait_host();
  const int64_t* first = lengths.const_data_ptr<int64_t>();
  const std::vector<int64_t> counts(first, first + world.size());

  at::Tensor bytes = at::empty({length}, at::kByte);
  if (length > 0) std::memcpy(bytes.data_ptr(), mine.data(), mine.size());
  at::Tensor all =
      at::empty({std::accumulate(counts.begin(), counts.end(), int64_t{0})}, at::kByte);
  if (all.numel() > 0) world.all_gather_v(all, bytes, counts).wait_host();

  std::vector<std::string> texts;
  const char* text = static_cast<const char*>(all.const_data_ptr());
  for (const int64_t count : counts) {
    texts.emplace_back(text, static_cast<size_t>(count));
    text += count;
  }
  return texts;
}

std::string first_fault(Comm& world, const std::string& mine) {
  const std::vector<std::string> faults = gather_texts(world, mine);
  for (size_t rank = 0; rank < faults.size(); ++rank)
    if (!faults[rank].empty()) return message("rank ", rank, ": ", faults[rank]);
  return "";
}

}  // namespace cleave
