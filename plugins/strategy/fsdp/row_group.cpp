#include "row_group.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "cleave/memory.h"

namespace cleave {

RowLayout::RowLayout(const std::vector<Parameter*>& parameters, int num_ranks, int rank)
    : whole(make_buckets(parameters, std::numeric_limits<int64_t>::max())[0]) {
  for (const BucketSlice& place : whole.slices) {
    const int64_t rows = place.parameter->value_placement.box.shape()[0];
    const int64_t row_elements = rows == 0 ? 0 : place.elements / rows;
    const int64_t share = (rows + num_ranks - 1) / num_ranks;
    const auto first_row = [&](int64_t of_rank) { return std::min(of_rank * share, rows); };
    RowSlice slice{{Piece::Unit::row, first_row(rank), first_row(rank + 1)},
                   {},
                   first_row(rank) * row_elements,
                   shard_elements};
    for (int r = 0; r < num_ranks; ++r)
      slice.counts.push_back((first_row(r + 1) - first_row(r)) * row_elements);
    shard_elements += slice.counts[rank];
    sent_elements += place.elements;
    slices.push_back(std::move(slice));
  }
}

GradientBucket RowLayout::exchanged() const {
  GradientBucket bucket{ExchangeMode::reduce_scatter, {}};
  for (size_t i = 0; i < slices.size(); ++i) {
    const BucketSlice& place = whole.slices[i];
    bucket.parts.push_back(
        {{{{place.parameter, 0, place.elements}}, place.elements}, slices[i].counts});
  }
  return bucket;
}

RowGroup::RowGroup(const std::vector<Parameter*>& parameters, Comm& shards, Comm* replicas,
                   GradientExchange& exchange, at::Device device)
    : ShardGroup(parameters),
      layout_(parameters, shards.size(), shards.rank()),
      shards_(shards),
      replicas_(replicas),
      exchange_(exchange),
      device_(device),
      dtype_(parameters[0]->dtype) {}

at::Tensor RowGroup::whole(const at::Tensor& flat, size_t slice) const {
  const BucketSlice& place = layout_.whole.slices[slice];
  return flat.narrow(0, place.begin, place.elements);
}

at::Tensor RowGroup::own_rows(const at::Tensor& flat, size_t slice) const {
  const RowSlice& rows = layout_.slices[slice];
  return whole(flat, slice).narrow(0, rows.whole_begin, rows.counts[shards_.rank()]);
}

at::Tensor RowGroup::piece(const at::Tensor& shard, size_t slice) const {
  const RowSlice& rows = layout_.slices[slice];
  return shard.narrow(0, rows.shard_begin, rows.counts[shards_.rank()]);
}

void RowGroup::bind_pieces(const at::Tensor& shard, at::Tensor Parameter::*member) const {
  for (size_t i = 0; i < layout_.slices.size(); ++i) {
    Parameter& parameter = *layout_.whole.slices[i].parameter;
    const auto shape = parameter.state_placement.shape();
    parameter.*member = piece(shard, i).view(at::IntArrayRef(shape));
  }
}

void RowGroup::allocate_weights() {
  MemoryScope scope(dtype_ == at::kFloat ? MemoryCategory::parameters : MemoryCategory::master);
  masters_ = at::empty({layout_.shard_elements}, at::dtype(at::kFloat).device(device_));
  bind_pieces(masters_, &Parameter::master);
}

void RowGroup::start_gather() {
  values_ = shards_.allocate(layout_.whole.elements, dtype_, device_);
  shards_.group_begin();
  for (size_t i = 0; i < layout_.slices.size(); ++i) {
    at::Tensor mine = piece(masters_, i);
    if (dtype_ != at::kFloat) mine = own_rows(values_, i).copy_(mine);
    gathers_.push_back(shards_.all_gather_v(whole(values_, i), mine, layout_.slices[i].counts));
  }
  shards_.group_end();
}

void RowGroup::finish_gather() {
  for (Work& gather : gathers_) gather.wait();
  gathers_.clear();
  bind_slices(layout_.whole, values_, &Parameter::value);
}

void RowGroup::free_values() {
  for (Parameter* parameter : parameters()) parameter->value = at::Tensor();
  values_ = at::Tensor();
}

void RowGroup::allocate_gradient_shards() {
  bucket_ = exchange_.add_bucket(layout_.exchanged(), shards_);
  gradient_shard_ = at::empty({layout_.shard_elements}, at::dtype(at::kFloat).device(device_));
  bind_pieces(gradient_shard_, &Parameter::reduced_gradient);
}

void RowGroup::allocate_gradients() {
  gradients_ = shards_.allocate(layout_.whole.elements, at::kFloat, device_);
  bind_slices(layout_.whole, gradients_, &Parameter::gradient);
}

void RowGroup::start_reduce(bool is_first) {
  adds_ = !is_first;
  std::vector<at::Tensor> sums, terms;
  for (size_t i = 0; i < layout_.slices.size(); ++i) {
    sums.push_back(adds_ ? own_rows(gradients_, i) : piece(gradient_shard_, i));
    terms.push_back(whole(gradients_, i));
  }
  exchange_.start(bucket_, sums, terms);
}

void RowGroup::finish_reduce() {
  exchange_.finish(bucket_);
  if (!adds_) return;
  for (size_t i = 0; i < layout_.slices.size(); ++i)
    piece(gradient_shard_, i).add_(own_rows(gradients_, i));
}

void RowGroup::free_gradients() {
  for (Parameter* parameter : parameters()) parameter->gradient = at::Tensor();
  gradients_ = at::Tensor();
}

void RowGroup::start_replica_sum() {
  if (replicas_) replica_sum_ = replicas_->all_reduce(gradient_shard_);
}

void RowGroup::finish_replica_sum() {
  if (!replica_sum_.valid()) return;
  replica_sum_.wait();
  replica_sum_ = Work();
}

}  // namespace cleave
