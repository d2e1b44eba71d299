#include "bf16_exchange.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "cleave/memory.h"

namespace cleave {

namespace {

constexpr size_t kMostOpen = 2;
constexpr int64_t kAlignment = 32;  // elements: 64 bytes

int64_t padded(int64_t elements) {
  return (elements + kAlignment - 1) / kAlignment * kAlignment;
}

int64_t elements_of(const GradientBucket& bucket) {
  int64_t elements = 0;
  for (const GradientPart& part : bucket.parts) elements += padded(part.layout.elements);
  return elements;
}

// This rank's block of a part's tensor.
at::Tensor own_block(const at::Tensor& tensor, const GradientPart& part, const Comm& comm) {
  const int64_t rank = comm.rank();
  if (part.counts.empty()) {
    const int64_t elements = part.layout.elements / comm.size();
    return tensor.narrow(0, rank * elements, elements);
  }
  const int64_t begin =
      std::accumulate(part.counts.begin(), part.counts.begin() + rank, int64_t{0});
  return tensor.narrow(0, begin, part.counts[rank]);
}

Work sum(const at::Tensor& result, const at::Tensor& terms, const GradientBucket& bucket,
         const GradientPart& part, Comm& comm) {
  if (bucket.mode == ExchangeMode::all_reduce) return comm.all_reduce(terms);
  return part.counts.empty() ? comm.reduce_scatter(result, terms)
                             : comm.reduce_scatter_v(result, terms, part.counts);
}

}  // namespace

int64_t Bf16Exchange::buffer_bytes(const std::vector<GradientBucket>& buckets) {
  int64_t largest = 0;
  for (const GradientBucket& bucket : buckets) largest = std::max(largest, elements_of(bucket));
  return static_cast<int64_t>(std::min(buckets.size(), kMostOpen) *
                              c10::elementSize(at::kBFloat16)) *
         largest;
}

int Bf16Exchange::add_bucket(const GradientBucket& bucket, Comm& comm) {
  buckets_.push_back({bucket, &comm});
  return static_cast<int>(buckets_.size()) - 1;
}

// All buckets are known by now.
at::Tensor Bf16Exchange::take_buffer(Comm& comm) {
  if (free_buffers_.empty()) {
    int64_t largest = 0;
    for (const Bucket& bucket : buckets_) largest = std::max(largest, elements_of(bucket.shape));
    MemoryScope scope(MemoryCategory::communication);
    return comm.allocate(largest, at::kBFloat16, device_);
  }
  at::Tensor buffer = std::move(free_buffers_.back());
  free_buffers_.pop_back();
  return buffer;
}

void Bf16Exchange::start(int bucket, std::span<const at::Tensor> outputs,
                         std::span<const at::Tensor> inputs) {
  if (open_.size() == kMostOpen) complete(open_.begin());
  const auto& [shape, comm] = buckets_[bucket];
  Open open{bucket, take_buffer(*comm), {outputs.begin(), outputs.end()}, {}, {}};
  std::vector<at::Tensor> terms;
  int64_t begin = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const GradientPart& part = shape.parts[i];
    terms.push_back(open.buffer.narrow(0, begin, part.layout.elements));
    terms.back().copy_(inputs[i]);
    open.results.push_back(shape.mode == ExchangeMode::all_reduce
                               ? terms.back()
                               : own_block(terms.back(), part, *comm));
    begin += padded(part.layout.elements);
  }
  if (terms.size() > 1) comm->group_begin();
  for (size_t i = 0; i < terms.size(); ++i)
    open.works.push_back(sum(open.results[i], terms[i], shape, shape.parts[i], *comm));
  if (terms.size() > 1) comm->group_end();
  open_.push_back(std::move(open));
}

void Bf16Exchange::complete(std::deque<Open>::iterator open) {
  for (Work& work : open->works) work.wait();
  for (size_t i = 0; i < open->outputs.size(); ++i) open->outputs[i].copy_(open->results[i]);
  free_buffers_.push_back(std::move(open->buffer));
  open_.erase(open);
}

void Bf16Exchange::finish(int bucket) {
  const auto found = std::find_if(open_.begin(), open_.end(),
                                  [&](const Open& open) { return open.bucket == bucket; });
  if (found != open_.end()) complete(found);
}

}  // namespace cleave
