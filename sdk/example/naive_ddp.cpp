// Data parallelism at its plainest: every gradient is all-reduced alone, as soon as it is ready.
// P parameters, N ranks on the data axis: each rank sends 4P x 2(N-1)/N bytes a step in as many
// messages as there are parameters, and keeps 4P bytes of gradients.
#include <ATen/ops/zeros_like.h>
#include <cleave/strategy.h>

namespace {

class NaiveDdp final : public cleave::Strategy, public cleave::GradientReducer {
 public:
  explicit NaiveDdp(const cleave_options*) {}

  void plan(cleave::Plan& plan) override {
    plan.claimed_axes = {"data"};
    const double ranks = plan.mesh.size("data");
    double bytes = 0;
    for (cleave::Parameter* parameter : plan.parameters) {
      parameter->gradient_placement = parameter->value_placement;
      bytes += 4.0 * parameter->value_placement.num_elements() * 2 * (ranks - 1) / ranks;
    }
    plan.communication = {{"data", CLEAVE_ALL_REDUCE, at::kFloat, bytes}};
  }

  void start(const cleave::Runtime& runtime) override { data_ = &runtime.comm("data"); }

  void* query(std::string_view id) override {
    return id == GradientReducer::kInterface ? static_cast<GradientReducer*>(this) : nullptr;
  }

  void allocate_gradients(const std::vector<cleave::Parameter*>& backward_order) override {
    for (cleave::Parameter* parameter : backward_order)
      parameter->gradient = at::zeros_like(parameter->value, at::kFloat);
    sums_.reserve(backward_order.size());
  }

  void gradient_ready(cleave::Parameter& parameter, bool is_last) override {
    if (!is_last) return;  // later micro-batches add to it
    sums_.push_back(data_->all_reduce(parameter.gradient));
  }

  void finish_gradients() override {
    for (cleave::Work& sum : sums_) sum.wait();
    sums_.clear();
  }

  void quiesce() override { sums_.clear(); }
  void destroy() override { delete this; }

 private:
  cleave::Comm* data_ = nullptr;
  std::vector<cleave::Work> sums_;
};

constexpr cleave_plugin kPlugin = cleave::strategy_plugin<NaiveDdp>("naive-ddp", "0.1.0");

}  // namespace

CLEAVE_EXPORT_PLUGIN(kPlugin)
