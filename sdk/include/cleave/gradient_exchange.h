// How a gradient reducer has its gradients summed: through an exchange instead of by Comm, so that
// a strategy with the role GradientTransformer can send something smaller in their place.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "cleave/bucket.h"
#include "cleave/comm.h"

namespace cleave {

enum class ExchangeMode {
  all_reduce,     ///< every rank gets the sum
  reduce_scatter  ///< each rank gets its block of the sum
};

/// A flat float32 tensor of a bucket.
struct GradientPart {
  /// Which parameters lie where; `elements` are the tensor's. Padding is zero on all ranks, or its
  /// sum is never read.
  BucketLayout layout;
  /// reduce_scatter: elements of each rank's block; empty: equal blocks.
  std::vector<int64_t> counts = {};
};

/// Gradients that are exchanged together. A parameter is in one bucket.
struct GradientBucket {
  ExchangeMode mode;
  std::vector<GradientPart> parts;
};

/// Sums gradients over the ranks of a communicator. All ranks of it make the same calls in the same
/// order, on the rank's main thread.
class GradientExchange {
 public:
  /// Once per bucket, in GradientReducer::allocate_gradients. `comm` lives until quiesce(). Returns
  /// the number by which the bucket goes from here on.
  virtual int add_bucket(const GradientBucket& bucket, Comm& comm) = 0;
  /// Starts to sum `inputs`, one tensor for each part of the bucket. all_reduce: in place,
  /// `outputs` are the inputs. reduce_scatter: each output gets this rank's block, and may be that
  /// block of its own input. The tensors stay alive, their content undefined, until finish(). A
  /// bucket is started again only after that.
  virtual void start(int bucket, std::span<const at::Tensor> outputs,
                     std::span<const at::Tensor> inputs) = 0;
  /// Returns when the outputs hold the sum (as Work::wait); at once when nothing was started.
  virtual void finish(int bucket) = 0;

 protected:
  ~GradientExchange() = default;
};

/// The exact one: a Comm operation for each part, those of a bucket in one group.
class ExactExchange final : public GradientExchange {
 public:
  int add_bucket(const GradientBucket& bucket, Comm& comm) override;
  void start(int bucket, std::span<const at::Tensor> outputs,
             std::span<const at::Tensor> inputs) override;
  void finish(int bucket) override;

 private:
  struct Bucket {
    ExchangeMode mode;
    std::vector<std::vector<int64_t>> counts;  // of each part
    Comm* comm;
    std::vector<Work> works;
  };
  std::vector<Bucket> buckets_;
};

}  // namespace cleave
