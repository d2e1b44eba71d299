// Sums gradients as bytes with a scale per block: each rank quantises all of its gradient and sends
// every other rank that one's chunk (all_to_all); the owner adds the chunks in float32, in rank
// order. Of an all_reduce it then quantises the sums and all get them (all_gather).
#pragma once

#include <deque>
#include <vector>

#include "block_codec.h"
#include "cleave/gradient_exchange.h"

namespace cleave {

struct Int8Options {
  int64_t block;        ///< elements that share a scale
  bool error_feedback;  ///< add to a step's gradient what was not sent before
};

/// The second half of an exchange begins when the one after the next starts, and its result is
/// taken when the third does; at the latest in finish(). So the order in which a rank submits
/// operations does not depend on time, two operations are on their way meanwhile, and a few buffers
/// serve any number of buckets.
class Int8Exchange final : public GradientExchange {
 public:
  Int8Exchange(const Int8Options& options, at::Device device)
      : options_(options), device_(device) {}

  /// Bytes of the buffers for these buckets on a rank; the most that are in use together.
  static int64_t buffer_bytes(const std::vector<WireLayout>& layouts, int rank);

  int add_bucket(const GradientBucket& bucket, Comm& comm) override;
  void start(int bucket, std::span<const at::Tensor> outputs,
             std::span<const at::Tensor> inputs) override;
  void finish(int bucket) override;

  /// Of a parameter that is in a bucket; flat.
  at::Tensor residual(const Parameter& parameter) const;

 private:
  struct Bucket {
    WireLayout layout;
    Comm* comm;
    std::vector<int64_t> receive_counts;  // bytes from each rank
    at::Tensor residual;                  // (layout.elements), or undefined
  };
  struct Buffer {
    at::Tensor sent;      // all ranks' chunks; then those of the sums
    at::Tensor received;  // this rank's chunk from each rank
    bool is_free = true;
  };
  struct Open {
    int bucket;
    size_t buffer;
    std::vector<at::Tensor> outputs;
    Work work;
    bool has_sums = false;  // the second half has begun
  };

  size_t take_buffer(Comm& comm);
  void make_room(ExchangeMode mode);
  void begin_second_half(Open& open);
  void complete(std::deque<Open>::iterator open);

  Int8Options options_;
  at::Device device_;
  std::vector<Bucket> buckets_;
  std::vector<Buffer> buffers_;
  std::deque<Open> open_;  // oldest first
};

}  // namespace cleave
