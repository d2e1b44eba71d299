#include <ATen/ATen.h>

#include "block_codec.h"

namespace cleave {

namespace {

constexpr float kLargestByte = 127.0f;
constexpr float kSmallestMagnitude = 1e-35f;

// (n) to (blocks, block), zeros behind the end.
at::Tensor in_blocks(const at::Tensor& x, int64_t block) {
  const int64_t num_blocks = (x.numel() + block - 1) / block;
  return at::constant_pad_nd(x, {0, num_blocks * block - x.numel()}).view({num_blocks, block});
}

struct Encoded {
  at::Tensor scales;  // (blocks)
  at::Tensor bytes;   // (n) int8
  at::Tensor errors;  // (n) what the bytes don't say; zero in blocks that are not finite
};

Encoded encode_values(const at::Tensor& x, int64_t block) {
  const at::Tensor blocks = in_blocks(x, block);
  const at::Tensor largest = blocks.abs().amax(1);
  const at::Tensor scales =
      at::where(largest < kSmallestMagnitude, at::zeros_like(largest), largest / kLargestByte);
  const at::Tensor inverse = at::where(scales == 0, at::zeros_like(scales), scales.reciprocal());
  const at::Tensor is_finite = at::isfinite(scales).unsqueeze(1);
  const at::Tensor rounded =
      at::where(is_finite, (blocks * inverse.unsqueeze(1)).round(), at::ones({}, x.options()));
  const at::Tensor errors =
      at::where(is_finite, blocks - rounded * scales.unsqueeze(1), at::zeros({}, x.options()));
  const auto flat = [&](const at::Tensor& values) {
    return values.view({-1}).narrow(0, 0, x.numel());
  };
  return {scales, flat(rounded).to(at::kChar), flat(errors)};
}

at::Tensor chunk_of(const at::Tensor& wire, const WireLayout& layout, int owner) {
  return wire.narrow(0, layout.chunk_begins[owner], layout.chunk_bytes[owner]);
}

at::Tensor scales_of(const at::Tensor& chunk, const WireRun& run, int64_t block) {
  return chunk.narrow(0, run.scales, run.num_blocks(block) * static_cast<int64_t>(sizeof(float)))
      .view(at::kFloat);
}

at::Tensor bytes_of(const at::Tensor& chunk, const WireRun& run) {
  return chunk.narrow(0, run.values, run.elements).view(at::kChar);
}

at::Tensor decode_run(const at::Tensor& chunk, const WireRun& run, int64_t block) {
  const at::Tensor scales = scales_of(chunk, run, block)
                                .repeat_interleave(block)
                                .narrow(0, run.first % block, run.elements);
  return bytes_of(chunk, run).to(at::kFloat) * scales;
}

at::Tensor elements_of(std::span<const at::Tensor> tensors, const WireSlice& slice) {
  return tensors[slice.part].narrow(0, slice.place.begin, slice.place.elements);
}

void encode(const WireLayout& layout, int column, std::span<const at::Tensor> gradients,
            const at::Tensor& residual, const at::Tensor& wire) {
  for (const WireSlice& slice : layout.slices) {
    at::Tensor x = elements_of(gradients, slice), left;
    if (residual.defined()) {
      left = residual.narrow(0, slice.residual_begin, slice.place.elements);
      x = x + left;
    }
    const Encoded encoded = encode_values(x, layout.block);
    for (const WireRun& run : slice.runs) {
      if (!layout.is_quantised_by(column, run.owner)) continue;
      if (left.defined())
        left.narrow(0, run.first, run.elements)
            .copy_(encoded.errors.narrow(0, run.first, run.elements));
      const at::Tensor chunk = chunk_of(wire, layout, run.owner);
      scales_of(chunk, run, layout.block)
          .copy_(encoded.scales.narrow(0, run.first_block(layout.block),
                                       run.num_blocks(layout.block)));
      bytes_of(chunk, run).copy_(encoded.bytes.narrow(0, run.first, run.elements));
    }
  }
}

void sum(const WireLayout& layout, int owner, const at::Tensor& received,
         std::span<const at::Tensor> outputs) {
  const int64_t bytes = layout.chunk_bytes[owner];
  for (const WireSlice& slice : layout.slices)
    for (const WireRun& run : slice.runs) {
      if (run.owner != owner) continue;
      at::Tensor out = outputs[slice.part].narrow(
          0,
          layout.mode == ExchangeMode::all_reduce ? slice.place.begin + run.first : run.block_begin,
          run.elements);
      for (int source = 0; source < layout.outer_ranks(); ++source) {
        const at::Tensor chunk = received.narrow(0, source * bytes, bytes);
        const at::Tensor values = decode_run(chunk, run, layout.block);
        if (source == 0)
          out.copy_(values);
        else
          out.add_(values);
      }
    }
}

void encode_sum(const WireLayout& layout, int owner, std::span<const at::Tensor> sums,
                const at::Tensor& residual, const at::Tensor& wire) {
  const at::Tensor chunk = chunk_of(wire, layout, owner);
  for (const WireSlice& slice : layout.slices)
    for (const WireRun& run : slice.runs) {
      if (run.owner != owner) continue;
      const Encoded encoded =
          encode_values(elements_of(sums, slice).narrow(0, run.first, run.elements), layout.block);
      scales_of(chunk, run, layout.block).copy_(encoded.scales);
      bytes_of(chunk, run).copy_(encoded.bytes);
      if (residual.defined())
        residual.narrow(0, slice.residual_begin + run.first, run.elements).add_(encoded.errors);
    }
}

void decode(const WireLayout& layout, const at::Tensor& wire, std::span<const at::Tensor> outputs) {
  for (const WireSlice& slice : layout.slices)
    for (const WireRun& run : slice.runs)
      elements_of(outputs, slice)
          .narrow(0, run.first, run.elements)
          .copy_(decode_run(chunk_of(wire, layout, run.owner), run, layout.block));
}

}  // namespace

const BlockCodec kTensorCodec{encode, sum, encode_sum, decode};

}  // namespace cleave
