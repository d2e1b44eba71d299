// The parameters of a unit, each cut by rows of dim 0 as torch.chunk cuts them: ceil(R/n) rows to
// the first ranks, fewer or none to the last. Shards are contiguous blocks of the whole in rank
// order, so each parameter is gathered to, and its gradient reduced from, the place where it is
// used; nothing is packed.
#pragma once

#include "cleave/bucket.h"
#include "cleave/gradient_exchange.h"
#include "cleave/sharded_units.h"

namespace cleave {

/// What a rank holds of one parameter.
struct RowSlice {
  Piece rows;
  std::vector<int64_t> counts;  ///< elements of each rank
  int64_t whole_begin;          ///< first own element in the parameter
  int64_t shard_begin;          ///< and in the rank's flat shard
};

/// Where a group's elements are. In the whole, parameters start on 64 bytes; the shard has no
/// padding.
struct RowLayout {
  BucketLayout whole;
  std::vector<RowSlice> slices;  ///< as whole.slices
  int64_t shard_elements = 0;
  int64_t sent_elements = 0;  ///< of the whole, without padding

  RowLayout(const std::vector<Parameter*>& parameters, int num_ranks, int rank);
  /// The reduction of its gradients: a part for each parameter.
  GradientBucket exchanged() const;
};

/// Gathers and reduces along `shards`; `replicas` (nullptr: none) are the ranks that hold equal
/// shards.
class RowGroup final : public ShardGroup {
 public:
  RowGroup(const std::vector<Parameter*>& parameters, Comm& shards, Comm* replicas,
           GradientExchange& exchange, at::Device device);

  void allocate_weights() override;
  void start_gather() override;
  void finish_gather() override;
  void free_values() override;
  void allocate_gradient_shards() override;
  void allocate_gradients() override;
  void start_reduce(bool is_first) override;
  void finish_reduce() override;
  void free_gradients() override;
  void start_replica_sum() override;
  void finish_replica_sum() override;

 private:
  at::Tensor whole(const at::Tensor& flat, size_t slice) const;
  at::Tensor own_rows(const at::Tensor& flat, size_t slice) const;
  at::Tensor piece(const at::Tensor& shard, size_t slice) const;
  void bind_pieces(const at::Tensor& shard, at::Tensor Parameter::*member) const;

  RowLayout layout_;
  Comm& shards_;
  Comm* replicas_;
  GradientExchange& exchange_;
  at::Device device_;
  at::ScalarType dtype_;       // of values
  at::Tensor values_;          // (whole.elements), while gathered
  at::Tensor masters_;         // (shard_elements) float32
  at::Tensor gradients_;       // (whole.elements) float32, while filling or being reduced
  at::Tensor gradient_shard_;  // (shard_elements) float32
  std::vector<Work> gathers_;
  int bucket_ = 0;     // in the exchange
  bool adds_ = false;  // reductions go to the own rows of gradients_ and are then added
  Work replica_sum_;
};

}  // namespace cleave
