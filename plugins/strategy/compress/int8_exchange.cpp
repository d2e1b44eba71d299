#include "int8_exchange.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "cleave/error.h"
#include "cleave/memory.h"

namespace cleave {

namespace {

const BlockCodec& codec_of(at::Device device) {
  return device.is_cpu() ? kCpuCodec : kTensorCodec;
}

size_t most_open(ExchangeMode mode) {
  return mode == ExchangeMode::all_reduce ? 3 : 2;
}

int64_t received_bytes(const WireLayout& layout, int owner) {
  return layout.outer_ranks() * layout.chunk_bytes[owner];
}

at::Tensor column_of(const at::Tensor& wire, const WireLayout& layout, int column) {
  return wire.narrow(0, layout.column_begin(column), layout.column_bytes(column));
}

std::vector<int64_t> bytes_of_columns(const WireLayout& layout) {
  std::vector<int64_t> bytes;
  for (int column = 0; column < layout.inner_ranks; ++column)
    bytes.push_back(layout.column_bytes(column));
  return bytes;
}

// What a checkpoint of another layout left on this rank of elements that only others of its machine
// quantise.
void add_other_columns(const WireLayout& layout, int column, const at::Tensor& residual,
                       std::span<const at::Tensor> inputs) {
  for (const WireSlice& slice : layout.slices)
    for (const WireRun& run : slice.runs) {
      if (layout.is_quantised_by(column, run.owner)) continue;
      const at::Tensor left = residual.narrow(0, slice.residual_begin + run.first, run.elements);
      inputs[slice.part].narrow(0, slice.place.begin + run.first, run.elements).add_(left);
      left.zero_();
    }
}

}  // namespace

int64_t Int8Exchange::buffer_bytes(const std::vector<WireLayout>& layouts, int rank) {
  int64_t sent = 0, received = 0;
  for (const WireLayout& layout : layouts) {
    sent = std::max(sent, layout.total_bytes);
    received = std::max(received, received_bytes(layout, layout.owner_of(rank)));
  }
  return static_cast<int64_t>(std::min(layouts.size(), most_open(layouts[0].mode))) *
         (sent + received);
}

int Int8Exchange::add_bucket(const GradientBucket& bucket, Comm& comm) {
  WireLayout layout(bucket, comm.size(), options_.block, groups_.inner ? groups_.inner->size() : 1);
  if (groups_.inner)
    inner_sums_.add_bucket({ExchangeMode::all_reduce, bucket.parts}, *groups_.inner);
  at::Tensor residual;
  if (options_.error_feedback) {
    MemoryScope scope(MemoryCategory::gradients);
    residual = at::zeros({layout.elements}, at::dtype(at::kFloat).device(device_));
  }
  const int owner = layout.owner_of(comm.rank());
  buckets_.push_back(
      {std::move(layout), owner, groups_.outer ? groups_.outer : &comm, std::move(residual)});
  return static_cast<int>(buckets_.size()) - 1;
}

// All buckets are known by now, so a buffer has the size of the largest.
size_t Int8Exchange::take_buffer(Comm& comm) {
  const auto found =
      std::find_if(buffers_.begin(), buffers_.end(), [](const Buffer& b) { return b.is_free; });
  if (found != buffers_.end()) {
    found->is_free = false;
    return static_cast<size_t>(found - buffers_.begin());
  }
  int64_t sent = 0, received = 0;
  for (const Bucket& bucket : buckets_) {
    sent = std::max(sent, bucket.layout.total_bytes);
    received = std::max(received, received_bytes(bucket.layout, bucket.owner));
  }
  MemoryScope scope(MemoryCategory::communication);
  buffers_.push_back({comm.allocate(sent, at::kByte, device_),
                      comm.allocate(received, at::kByte, device_), false});
  buffers_.back().sent.zero_();  // padding is sent too
  return buffers_.size() - 1;
}

void Int8Exchange::make_room(ExchangeMode mode) {
  while (open_.size() >= most_open(mode)) complete(open_.begin());
  if (open_.size() >= 2) begin_second_half(open_[open_.size() - 2]);
}

void Int8Exchange::sum_inside(int number, std::span<const at::Tensor> inputs) {
  Bucket& bucket = buckets_[number];
  if (bucket.is_new && bucket.residual.defined())
    add_other_columns(bucket.layout, bucket.column(), bucket.residual, inputs);
  bucket.is_new = false;
  inner_sums_.start(number, inputs, inputs);
  inner_sums_.finish(number);
}

void Int8Exchange::start(int bucket, std::span<const at::Tensor> outputs,
                         std::span<const at::Tensor> inputs) {
  Bucket& started = buckets_[bucket];
  const WireLayout& layout = started.layout;
  make_room(layout.mode);
  Open open{bucket, take_buffer(*started.comm), {outputs.begin(), outputs.end()}, {}};
  const Buffer& buffer = buffers_[open.buffer];
  const at::Tensor received = buffer.received.narrow(0, 0, received_bytes(layout, started.owner));
  if (groups_.inner) sum_inside(bucket, inputs);
  const int column = started.column();
  codec_of(device_).encode(layout, column, inputs, started.residual, buffer.sent);
  open.work = started.comm->all_to_all_v(
      received, column_of(buffer.sent, layout, column),
      std::vector<int64_t>(layout.outer_ranks(), layout.chunk_bytes[started.owner]),
      layout.column_chunks(column));
  open_.push_back(std::move(open));
}

void Int8Exchange::begin_second_half(Open& open) {
  if (open.has_sums) return;
  open.has_sums = true;
  open.work.wait();
  const Bucket& bucket = buckets_[open.bucket];
  const WireLayout& layout = bucket.layout;
  const int owner = bucket.owner;
  const Buffer& buffer = buffers_[open.buffer];
  codec_of(device_).sum(layout, owner, buffer.received, open.outputs);
  if (layout.mode == ExchangeMode::reduce_scatter) return;
  codec_of(device_).encode_sum(layout, owner, open.outputs, bucket.residual, buffer.sent);
  open.work = bucket.comm->all_gather_v(
      column_of(buffer.sent, layout, bucket.column()),
      buffer.sent.narrow(0, layout.chunk_begins[owner], layout.chunk_bytes[owner]),
      layout.column_chunks(bucket.column()));
}

void Int8Exchange::complete(std::deque<Open>::iterator open) {
  begin_second_half(*open);
  const Bucket& bucket = buckets_[open->bucket];
  const WireLayout& layout = bucket.layout;
  Buffer& buffer = buffers_[open->buffer];
  if (layout.mode == ExchangeMode::all_reduce) {
    open->work.wait();
    if (groups_.inner)
      groups_.inner
          ->all_gather_v(buffer.sent.narrow(0, 0, layout.total_bytes),
                         column_of(buffer.sent, layout, bucket.column()), bytes_of_columns(layout))
          .wait();
    codec_of(device_).decode(layout, buffer.sent, open->outputs);
  }
  buffer.is_free = true;
  open_.erase(open);
}

// Of all that are open the second halves begin, so that they overlap while this one is waited for.
void Int8Exchange::finish(int bucket) {
  const auto found = std::find_if(open_.begin(), open_.end(),
                                  [&](const Open& open) { return open.bucket == bucket; });
  if (found == open_.end()) return;
  if (buckets_[bucket].layout.mode == ExchangeMode::all_reduce)
    for (Open& open : open_) begin_second_half(open);
  complete(found);
}

at::Tensor Int8Exchange::residual(const Parameter& parameter) const {
  for (const Bucket& bucket : buckets_)
    for (const WireSlice& slice : bucket.layout.slices)
      if (slice.place.parameter == &parameter)
        return bucket.residual.narrow(0, slice.residual_begin, slice.place.elements);
  throw RuntimeError(message(parameter.name, " is in no bucket"));
}

}  // namespace cleave
