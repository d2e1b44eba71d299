// Sums gradients in bfloat16: rounded to nearest even, added by the backend in float32 and rounded
// once more.
#pragma once

#include <deque>
#include <vector>

#include "cleave/gradient_exchange.h"

namespace cleave {

/// An exchange's result is taken when the one after the next starts, at the latest in finish(); two
/// buffers serve any number of buckets.
class Bf16Exchange final : public GradientExchange {
 public:
  explicit Bf16Exchange(at::Device device) : device_(device) {}

  /// Bytes of the buffers for these buckets.
  static int64_t buffer_bytes(const std::vector<GradientBucket>& buckets);

  int add_bucket(const GradientBucket& bucket, Comm& comm) override;
  void start(int bucket, std::span<const at::Tensor> outputs,
             std::span<const at::Tensor> inputs) override;
  void finish(int bucket) override;

 private:
  struct Open {
    int bucket;
    at::Tensor buffer;                // (elements of the largest bucket) bfloat16
    std::vector<at::Tensor> outputs;  // float32
    std::vector<at::Tensor> results;  // bfloat16, where in the buffer they arrive
    std::vector<Work> works;
  };
  struct Bucket {
    GradientBucket shape;
    Comm* comm;
  };

  at::Tensor take_buffer(Comm& comm);
  void complete(std::deque<Open>::iterator open);

  at::Device device_;
  std::vector<Bucket> buckets_;
  std::vector<at::Tensor> free_buffers_;
  std::deque<Open> open_;  // oldest first
};

}  // namespace cleave
