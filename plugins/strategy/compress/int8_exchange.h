// Sums gradients as bytes with a scale per block: each rank quantises all of its gradient and sends
// every other rank that one's chunk (all_to_all); the owner adds the chunks in float32, in rank
// order. Of an all_reduce it then quantises the sums and all get them (all_gather).
//
// With groups: the ranks of a machine first sum in float32 (all_reduce, waited for in start()) and
// then each exchanges, with its likes on other machines, its column of the sum; of an all_reduce
// the columns are then gathered within the machine, as bytes. Residuals: of an all_reduce a rank
// has its column's, which the errors of sums are added to; of a reduce_scatter, whose shares may
// cut blocks, all ranks of a machine have equal ones, so that a block's scale does not depend on
// the cut.
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

/// Of an axis that is divided by machines; both nullptr: it is not.
struct Int8Groups {
  Comm* inner = nullptr;  ///< ranks of this machine
  Comm* outer = nullptr;  ///< ranks at the same place in other machines
};

/// The second half of an exchange begins when the one after the next starts, and its result is
/// taken when the third does; at the latest in finish(). So the order in which a rank submits
/// operations does not depend on time, two operations are on their way meanwhile, and a few buffers
/// serve any number of buckets.
class Int8Exchange final : public GradientExchange {
 public:
  Int8Exchange(const Int8Options& options, at::Device device, const Int8Groups& groups = {})
      : options_(options), device_(device), groups_(groups) {}

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
    int owner;            // this rank
    Comm* comm;           // with the ranks of the column
    at::Tensor residual;  // (layout.elements), or undefined
    bool is_new = true;   // not exchanged yet
    int column() const { return layout.column_of(owner); }
  };
  struct Buffer {
    at::Tensor sent;      // all owners' chunks, first a column's; then those of the sums
    at::Tensor received;  // this owner's chunk from each rank of its column
    bool is_free = true;
  };
  struct Open {
    int bucket;
    size_t buffer;
    std::vector<at::Tensor> outputs;
    Work work;
    bool has_sums = false;  // the second half has begun
  };

  void sum_inside(int bucket, std::span<const at::Tensor> inputs);
  size_t take_buffer(Comm& comm);
  void make_room(ExchangeMode mode);
  void begin_second_half(Open& open);
  void complete(std::deque<Open>::iterator open);

  Int8Options options_;
  at::Device device_;
  Int8Groups groups_;
  ExactExchange inner_sums_;  // with groups: of the same buckets
  std::vector<Bucket> buckets_;
  std::vector<Buffer> buffers_;
  std::deque<Open> open_;  // oldest first
};

}  // namespace cleave
