// Parameters flattened one after the other and cut into one contiguous shard per rank, whatever
// their shapes; the last shards may be all padding.
#pragma once

#include "cleave/bucket.h"
#include "cleave/gradient_exchange.h"
#include "cleave/sharded_units.h"

namespace cleave {

/// Where a flat group's elements are. Shards start on 64 bytes.
struct FlatLayout {
  BucketLayout bucket;     ///< slices of the parameters
  int64_t shard_elements;  ///< of each rank; ranks x shard_elements >= bucket.elements
  int ranks;

  FlatLayout(const std::vector<Parameter*>& parameters, int num_ranks);
  int64_t elements() const { return shard_elements * ranks; }
  /// The part of a slice that lies in the rank's shard, counted from the slice's first element.
  Piece piece(const BucketSlice& slice, int rank) const;
  /// The reduction of its gradients.
  GradientBucket exchanged() const;
};

/// What a stage keeps whole on every rank between uses.
struct FlatKeeps {
  bool values;
  bool gradients;
};

class FlatGroup final : public ShardGroup {
 public:
  FlatGroup(const std::vector<Parameter*>& parameters, FlatKeeps keeps, Comm& comm,
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

 private:
  at::Tensor own_shard(const at::Tensor& flat) const;
  void bind_pieces(const at::Tensor& shard, at::Tensor Parameter::*member) const;

  FlatLayout layout_;
  FlatKeeps keeps_;
  Comm& comm_;
  GradientExchange& exchange_;
  at::Device device_;
  at::ScalarType dtype_;       // of values
  at::Tensor values_;          // (elements), while gathered or kept
  at::Tensor masters_;         // (shard_elements) float32; own shard of values_ where it can be
  at::Tensor gradients_;       // (elements) float32, while filling or kept
  at::Tensor gradient_shard_;  // (shard_elements) float32; own shard of gradients_ where kept
  Work gather_;
  int bucket_ = 0;     // in the exchange
  bool adds_ = false;  // the reduction goes to the own shard of gradients_ and is then added
};

}  // namespace cleave
