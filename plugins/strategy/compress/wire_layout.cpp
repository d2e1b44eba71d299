#include "wire_layout.h"

#include <algorithm>
#include <numeric>

namespace cleave {

namespace {

constexpr int64_t kChunkAlignment = 16;

std::vector<int64_t> counts_of(const GradientPart& part, int ranks) {
  if (!part.counts.empty()) return part.counts;
  return std::vector<int64_t>(ranks, part.layout.elements / ranks);
}

// What of a parameter lies in each rank's block of the part.
void add_scattered_runs(WireSlice& slice, const std::vector<int64_t>& counts,
                        const WireLayout& layout) {
  const auto& [parameter, begin, elements] = slice.place;
  int64_t block_begin = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    const int64_t run_begin = std::max(begin, block_begin);
    const int64_t run_end = std::min(begin + elements, block_begin + counts[rank]);
    if (run_begin < run_end)
      slice.runs.push_back({layout.owner_of(static_cast<int>(rank)), run_begin - begin,
                            run_end - run_begin, 0, 0, run_begin - block_begin});
    block_begin += counts[rank];
  }
}

// Whole blocks in equal shares; the index turns them, so that small parameters have different
// owners.
void add_owned_runs(WireSlice& slice, int ranks, int64_t block) {
  const int64_t elements = slice.place.elements;
  const int64_t num_blocks = (elements + block - 1) / block;
  for (int share = 0; share < ranks; ++share) {
    const int64_t first = num_blocks * share / ranks * block;
    const int64_t end = std::min(num_blocks * (share + 1) / ranks * block, elements);
    if (first < end)
      slice.runs.push_back(
          {(share + slice.place.parameter->index) % ranks, first, end - first, 0, 0, 0});
  }
}

}  // namespace

WireLayout::WireLayout(const GradientBucket& bucket, int ranks, int64_t block_elements,
                       int num_inner_ranks)
    : mode(bucket.mode),
      block(block_elements),
      inner_ranks(num_inner_ranks),
      chunk_bytes(ranks),
      chunk_begins(ranks) {
  for (size_t part = 0; part < bucket.parts.size(); ++part)
    for (const BucketSlice& place : bucket.parts[part].layout.slices) {
      if (place.elements == 0) continue;
      WireSlice slice{part, place, elements, {}};
      if (mode == ExchangeMode::all_reduce)
        add_owned_runs(slice, ranks, block);
      else
        add_scattered_runs(slice, counts_of(bucket.parts[part], ranks), *this);
      elements += place.elements;
      slices.push_back(std::move(slice));
    }
  // a chunk: all scales, which are aligned there, then all bytes
  for (WireSlice& slice : slices)
    for (WireRun& run : slice.runs) {
      run.scales = chunk_bytes[run.owner];
      chunk_bytes[run.owner] += run.num_blocks(block) * static_cast<int64_t>(sizeof(float));
    }
  for (WireSlice& slice : slices)
    for (WireRun& run : slice.runs) {
      run.values = chunk_bytes[run.owner];
      chunk_bytes[run.owner] += run.elements;
    }
  for (int owner = 0; owner < ranks; ++owner) {
    chunk_bytes[owner] =
        (chunk_bytes[owner] + kChunkAlignment - 1) / kChunkAlignment * kChunkAlignment;
    chunk_begins[owner] = total_bytes;
    total_bytes += chunk_bytes[owner];
  }
}

std::vector<int64_t> WireLayout::column_chunks(int column) const {
  const auto begin = chunk_bytes.begin() + column * outer_ranks();
  return {begin, begin + outer_ranks()};
}

int64_t WireLayout::column_bytes(int column) const {
  const auto begin = chunk_bytes.begin() + column * outer_ranks();
  return std::accumulate(begin, begin + outer_ranks(), int64_t{0});
}

}  // namespace cleave
