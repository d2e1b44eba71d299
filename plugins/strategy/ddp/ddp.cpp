// Distributed data parallel: every rank of the data axis holds the whole model and a part of the
// batch; gradients are summed in flat buckets while backward still runs (Li et al. 2020,
// arXiv:2006.15704).
//
// P parameters, N ranks on the axis, float32 gradients.
//   sent per rank and step: one all-reduce of every gradient, 4 P x 2 (N-1)/N bytes, whatever the
//     number of micro-batches (gradients are ready once, after the last one)
//   kept per rank: 4 P bytes of gradients, in the buckets themselves (gradients are views)
#include <algorithm>

#include "cleave/bucket.h"
#include "cleave/strategy.h"

namespace cleave {
namespace {

constexpr char kAxis[] = "data";
constexpr int64_t kMiB = 1 << 20;

class Ddp final : public Strategy, public GradientReducer {
 public:
  explicit Ddp(const cleave_options* options)
      : bucket_bytes_(Options(options).bytes("bucket_bytes")) {}

  void plan(Plan& plan) override {
    plan.claimed_axes = {kAxis};
    plan.offers = {"gradients.whole",  // on each rank, once reduced
                   "gradients.exchanged"};
    const double ranks = plan.mesh.size(kAxis);
    int64_t elements = 0;
    for (const Parameter* parameter : plan.parameters)
      elements += parameter->value_placement.num_elements();
    // Sixteen buckets are enough to overlap; below 1 MiB latency counts, above 25 MiB nothing
    // gains.
    if (bucket_bytes_ == 0)
      bucket_bytes_ = std::clamp<int64_t>(elements * sizeof(float) / 16, kMiB, 25 * kMiB);
    CommUse use{kAxis, CLEAVE_ALL_REDUCE, at::kFloat,
                sizeof(float) * elements * 2 * (ranks - 1) / ranks};
    int64_t padded_elements = 0;
    for (const BucketLayout& layout : make_buckets(backward_order(plan.units), bucket_bytes_)) {
      padded_elements += layout.elements;
      if (ranks > 1) use.gradient_buckets.push_back(exchanged(layout));
    }
    plan.communication = {std::move(use)};
    plan.memory.push_back({"padding of gradient buckets",
                           static_cast<int64_t>(sizeof(float)) * (padded_elements - elements),
                           MemoryCategory::gradients});
  }

  void start(const Runtime& runtime) override {
    comm_ = &runtime.comm(kAxis);
    exchange_ = runtime.gradients;
    device_ = runtime.device;
    bucket_of_.resize(runtime.parameters.back()->index + 1);
  }

  void* query(std::string_view id) override {
    return id == GradientReducer::kInterface ? static_cast<GradientReducer*>(this) : nullptr;
  }

  void allocate_gradients(const std::vector<Parameter*>& backward_order) override {
    for (const BucketLayout& layout : make_buckets(backward_order, bucket_bytes_)) {
      for (const BucketSlice& slice : layout.slices)
        bucket_of_[slice.parameter->index] = buckets_.size();
      buckets_.push_back({allocate_bucket(layout, *comm_, device_), layout.slices.size()});
      if (comm_->size() > 1) buckets_.back().id = exchange_->add_bucket(exchanged(layout), *comm_);
    }
  }

  // Buckets fill in the order in which the host announces, which is the same on all ranks, so their
  // exchanges start in the same order everywhere.
  void gradient_ready(Parameter& parameter, bool is_last) override {
    if (!is_last) return;
    Bucket& bucket = buckets_[bucket_of_[parameter.index]];
    if (++bucket.num_ready < bucket.num_parameters) return;
    bucket.num_ready = 0;
    if (comm_->size() > 1)
      exchange_->start(bucket.id, {&bucket.gradients, 1}, {&bucket.gradients, 1});
  }

  void finish_gradients() override {
    if (comm_->size() == 1) return;
    for (const Bucket& bucket : buckets_) exchange_->finish(bucket.id);
  }

  void quiesce() override { buckets_.clear(); }
  void destroy() override { delete this; }

 private:
  struct Bucket {
    at::Tensor gradients;  // flat, float32
    size_t num_parameters;
    size_t num_ready = 0;
    int id = 0;  // in the exchange
  };

  static GradientBucket exchanged(const BucketLayout& layout) {
    return {ExchangeMode::all_reduce, {{layout}}};
  }

  int64_t bucket_bytes_;
  Comm* comm_ = nullptr;
  GradientExchange* exchange_ = nullptr;
  at::Device device_ = at::kCPU;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;  // by Parameter::index
};

constexpr cleave_option kOptions[] = {
    {"bucket_bytes", CLEAVE_OPTION_BYTES, "0", 0, 1e12, nullptr, "bytes",
     "largest gradient bucket; 0: a sixteenth of all gradients, between 1 MiB and 25 MiB", 0},
};

constexpr cleave_plugin kPlugin =
    strategy_plugin<Ddp>("ddp", "0.1.0", kOptions, std::size(kOptions));

}  // namespace
}  // namespace cleave

CLEAVE_EXPORT_PLUGIN(cleave::kPlugin)
