#include "block_codec.h"

#include <algorithm>
#include <cstring>

#include "block_kernels.h"

namespace cleave {

namespace {

// Calls visit(byte of the scale, byte of the first value, first element of the parameter, elements)
// for each block of the run, whole or cut.
template <typename Visit>
void for_each_block(const WireRun& run, int64_t block, const Visit& visit) {
  int64_t scale = run.scales;
  for (int64_t at = run.first; at < run.first + run.elements;) {
    const int64_t end = std::min((at / block + 1) * block, run.first + run.elements);
    visit(scale, run.values + at - run.first, at, end - at);
    scale += static_cast<int64_t>(sizeof(float));
    at = end;
  }
}

void store(float scale, uint8_t* at) {
  std::memcpy(at, &scale, sizeof scale);
}

float load(const uint8_t* at) {
  float scale;
  std::memcpy(&scale, at, sizeof scale);
  return scale;
}

int8_t* as_signed(uint8_t* bytes) {
  return reinterpret_cast<int8_t*>(bytes);
}
const int8_t* as_signed(const uint8_t* bytes) {
  return reinterpret_cast<const int8_t*>(bytes);
}

float* from(const at::Tensor& tensor, int64_t first) {
  return tensor.defined() ? tensor.data_ptr<float>() + first : nullptr;
}

// A block that several ranks share has one scale; the first of its runs finds it, before the
// residual changes.
void encode(const WireLayout& layout, int column, std::span<const at::Tensor> gradients,
            const at::Tensor& residual, const at::Tensor& wire) {
  auto* bytes = wire.data_ptr<uint8_t>();
  for (const WireSlice& slice : layout.slices) {
    const float* x = from(gradients[slice.part], slice.place.begin);
    float* left = from(residual, slice.residual_begin);
    int64_t known_block = -1;
    float scale = 0;
    for (const WireRun& run : slice.runs) {
      if (!layout.is_quantised_by(column, run.owner)) continue;
      uint8_t* chunk = bytes + layout.chunk_begins[run.owner];
      for_each_block(run, layout.block,
                     [&](int64_t scale_at, int64_t values_at, int64_t first, int64_t n) {
                       if (const int64_t block = first / layout.block; block != known_block) {
                         known_block = block;
                         const int64_t begin = block * layout.block;
                         scale = block_scale(x + begin, left ? left + begin : nullptr,
                                             std::min(layout.block, slice.place.elements - begin));
                       }
                       store(scale, chunk + scale_at);
                       encode_block(x + first, left ? left + first : nullptr, scale, n,
                                    as_signed(chunk + values_at));
                     });
    }
  }
}

void sum(const WireLayout& layout, int owner, const at::Tensor& received,
         std::span<const at::Tensor> outputs) {
  const auto* bytes = received.const_data_ptr<uint8_t>();
  for (const WireSlice& slice : layout.slices)
    for (const WireRun& run : slice.runs) {
      if (run.owner != owner) continue;
      float* out = from(outputs[slice.part], layout.mode == ExchangeMode::all_reduce
                                                 ? slice.place.begin + run.first
                                                 : run.block_begin);
      for_each_block(run, layout.block,
                     [&](int64_t scale_at, int64_t values_at, int64_t first, int64_t n) {
                       float* target = out + first - run.first;
                       const uint8_t* chunk = bytes;
                       for (int source = 0; source < layout.outer_ranks(); ++source) {
                         (source == 0 ? decode_block : add_block)(
                             as_signed(chunk + values_at), load(chunk + scale_at), n, target);
                         chunk += layout.chunk_bytes[owner];
                       }
                     });
    }
}

void encode_sum(const WireLayout& layout, int owner, std::span<const at::Tensor> sums,
                const at::Tensor& residual, const at::Tensor& wire) {
  uint8_t* chunk = wire.data_ptr<uint8_t>() + layout.chunk_begins[owner];
  for (const WireSlice& slice : layout.slices) {
    const float* x = from(sums[slice.part], slice.place.begin);
    float* left = from(residual, slice.residual_begin);
    for (const WireRun& run : slice.runs) {
      if (run.owner != owner) continue;
      for_each_block(run, layout.block,
                     [&](int64_t scale_at, int64_t values_at, int64_t first, int64_t n) {
                       const float scale = block_scale(x + first, nullptr, n);
                       store(scale, chunk + scale_at);
                       encode_block_again(x + first, left ? left + first : nullptr, scale, n,
                                          as_signed(chunk + values_at));
                     });
    }
  }
}

void decode(const WireLayout& layout, const at::Tensor& wire, std::span<const at::Tensor> outputs) {
  const auto* bytes = wire.const_data_ptr<uint8_t>();
  for (const WireSlice& slice : layout.slices) {
    float* out = from(outputs[slice.part], slice.place.begin);
    for (const WireRun& run : slice.runs) {
      const uint8_t* chunk = bytes + layout.chunk_begins[run.owner];
      for_each_block(
          run, layout.block, [&](int64_t scale_at, int64_t values_at, int64_t first, int64_t n) {
            decode_block(as_signed(chunk + values_at), load(chunk + scale_at), n, out + first);
          });
    }
  }
}

}  // namespace

const BlockCodec kCpuCodec{encode, sum, encode_sum, decode};

}  // namespace cleave
