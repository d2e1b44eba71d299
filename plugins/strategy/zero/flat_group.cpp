#include "flat_group.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "cleave/memory.h"

namespace cleave {

FlatLayout::FlatLayout(const std::vector<Parameter*>& parameters, int num_ranks)
    : bucket(make_buckets(parameters, std::numeric_limits<int64_t>::max())[0]), ranks(num_ranks) {
  const int64_t share = (bucket.elements + ranks - 1) / ranks;
  shard_elements = (share + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
}

Piece FlatLayout::piece(const BucketSlice& slice, int rank) const {
  const auto within = [&](int64_t element) {
    return std::clamp<int64_t>(element - slice.begin, 0, slice.elements);
  };
  return {Piece::Unit::element, within(rank * shard_elements), within((rank + 1) * shard_elements)};
}

GradientBucket FlatLayout::exchanged() const {
  GradientPart part{bucket};
  part.layout.elements = elements();
  return {ExchangeMode::reduce_scatter, {std::move(part)}};
}

FlatGroup::FlatGroup(const std::vector<Parameter*>& parameters, FlatKeeps keeps, Comm& comm,
                     GradientExchange& exchange, at::Device device)
    : ShardGroup(parameters),
      layout_(parameters, comm.size()),
      keeps_(keeps),
      comm_(comm),
      exchange_(exchange),
      device_(device),
      dtype_(parameters[0]->dtype) {}

at::Tensor FlatGroup::own_shard(const at::Tensor& flat) const {
  return flat.narrow(0, comm_.rank() * layout_.shard_elements, layout_.shard_elements);
}

void FlatGroup::bind_pieces(const at::Tensor& shard, at::Tensor Parameter::*member) const {
  const int64_t first = comm_.rank() * layout_.shard_elements;
  for (const BucketSlice& slice : layout_.bucket.slices) {
    const Piece piece = layout_.piece(slice, comm_.rank());
    const int64_t length = piece.end - piece.begin;
    slice.parameter->*member =
        shard.narrow(0, length ? slice.begin + piece.begin - first : 0, length);
  }
}

void FlatGroup::allocate_weights() {
  if (keeps_.values) {
    values_ = comm_.allocate(layout_.elements(), dtype_, device_);
    bind_slices(layout_.bucket, values_, &Parameter::value);
  }
  if (keeps_.values && dtype_ == at::kFloat) {
    masters_ = own_shard(values_);
  } else {
    MemoryScope scope(dtype_ == at::kFloat ? MemoryCategory::parameters : MemoryCategory::master);
    masters_ = at::empty({layout_.shard_elements}, at::dtype(at::kFloat).device(device_));
  }
  masters_.zero_();  // the padding
  bind_pieces(masters_, &Parameter::master);
}

void FlatGroup::start_gather() {
  if (!keeps_.values) values_ = comm_.allocate(layout_.elements(), dtype_, device_);
  at::Tensor mine = own_shard(values_);
  if (!mine.is_same(masters_) && mine.const_data_ptr() != masters_.const_data_ptr())
    mine.copy_(masters_);
  gather_ = comm_.all_gather(values_, mine);
}

void FlatGroup::finish_gather() {
  gather_.wait();
  gather_ = Work();
  if (!keeps_.values) bind_slices(layout_.bucket, values_, &Parameter::value);
}

void FlatGroup::free_values() {
  for (Parameter* parameter : parameters()) parameter->value = at::Tensor();
  values_ = at::Tensor();
}

void FlatGroup::allocate_gradient_shards() {
  bucket_ = exchange_.add_bucket(layout_.exchanged(), comm_);
  if (keeps_.gradients) return;
  gradient_shard_ = at::empty({layout_.shard_elements}, at::dtype(at::kFloat).device(device_));
  bind_pieces(gradient_shard_, &Parameter::reduced_gradient);
}

void FlatGroup::allocate_gradients() {
  gradients_ = comm_.allocate(layout_.elements(), at::kFloat, device_);
  bind_slices(layout_.bucket, gradients_, &Parameter::gradient);
  if (!keeps_.gradients) return;
  gradient_shard_ = own_shard(gradients_);
  bind_pieces(gradient_shard_, &Parameter::reduced_gradient);
}

void FlatGroup::start_reduce(bool is_first) {
  adds_ = !is_first;
  const at::Tensor sum = adds_ ? own_shard(gradients_) : gradient_shard_;
  exchange_.start(bucket_, {&sum, 1}, {&gradients_, 1});
}

void FlatGroup::finish_reduce() {
  exchange_.finish(bucket_);
  if (adds_) gradient_shard_.add_(own_shard(gradients_));
}

void FlatGroup::free_gradients() {
  for (Parameter* parameter : parameters()) parameter->gradient = at::Tensor();
  gradients_ = at::Tensor();
}

}  // namespace cleave
