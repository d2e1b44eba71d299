// Pipeline parallelism (Huang et al. 2019, arXiv:1811.06965): the ranks of the axis hold successive
// parts of the network and pass micro-batches on. The host runs the schedule and moves activations;
// this decides who holds what, and in which order micro-batches run.
//
// p ranks, v chunks a rank, m micro-batches of B T tokens and C features, b bytes an activation.
// Bytes kept per rank: the states of its own units (a tied weight on both its ranks); activations
// of
//   its own units, of m micro-batches under gpipe, at most min(m, p - i) on rank i under 1f1b (see
//   schedules.h for the others)
// Bytes sent per rank and step: m v B T C b forward (not from the last chunk) and as many backward
//   (not from the first).
#include <numeric>

#include "cleave/balance.h"
#include "cleave/error.h"
#include "cleave/strategy.h"
#include "schedules.h"

namespace cleave {
namespace {

constexpr char kAxis[] = "pipeline";

std::string listed(const std::vector<int>& numbers) {
  std::string text;
  for (int number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

class Pipeline final : public Strategy, public Partitioner, public Scheduler {
 public:
  explicit Pipeline(const cleave_options* values) {
    const Options options(values);
    schedule_ = options.text("schedule");
    virtual_stages_ = static_cast<int>(options.integer("virtual_stages"));
    for (int64_t units : options.integer_list("units")) units_.push_back(static_cast<int>(units));
    const bool is_interleaved = schedule_ == "interleaved-1f1b";
    if (virtual_stages_ > 1 && !is_interleaved)
      throw ConfigError(message("virtual_stages = ", virtual_stages_, " with schedule = \"",
                                schedule_, "\"; only \"interleaved-1f1b\" has several chunks a ",
                                "rank: use it, or virtual_stages = 1"));
    if (is_interleaved && virtual_stages_ == 1)
      throw ConfigError(
          "schedule = \"interleaved-1f1b\" needs virtual_stages = 2 or more; with one chunk a rank "
          "it is \"1f1b\"");
  }

  void partition(Plan& plan) override {
    const int ranks = plan.mesh.size(kAxis), chunks = ranks * virtual_stages_;
    check_micro_batches(ranks, static_cast<int>(plan.num_micro_batches));
    const std::vector<int> counts = units_of_chunks(plan, chunks);
    size_t unit = 0;
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int i = 0; i < counts[chunk]; ++i) plan.units[unit++].chunk = chunk;
  }

  void plan(Plan& plan) override {
    plan.claimed_axes = {kAxis};
    plan.offers = {"units.split"};
    const int ranks = plan.mesh.size(kAxis), rank = plan.mesh.coordinate(plan.rank, kAxis);
    if (ranks == 1) return;
    const int last = ranks * virtual_stages_ - 1;
    double sends = 0;
    for (int chunk = rank; chunk <= last; chunk += ranks) sends += (chunk < last) + (chunk > 0);
    const at::ScalarType dtype = plan.parameters[0]->dtype;
    const double bytes =
        sends * plan.num_micro_batches * plan.shape.activation_elements() * c10::elementSize(dtype);
    plan.communication = {{kAxis, CLEAVE_SEND, dtype, bytes}, {kAxis, CLEAVE_RECV, dtype, 0}};
  }

  void start(const Runtime&) override {}
  void* query(std::string_view id) override {
    if (id == Partitioner::kInterface) return static_cast<Partitioner*>(this);
    if (id == Scheduler::kInterface) return static_cast<Scheduler*>(this);
    return nullptr;
  }

  std::vector<std::vector<Action>> schedule(int ranks, int num_micro_batches) override {
    const ScheduleShape shape{ranks, num_micro_batches, virtual_stages_};
    if (schedule_ == "gpipe") return gpipe(shape);
    if (schedule_ == "interleaved-1f1b") return interleaved(shape);
    if (schedule_ == "zb-h1") return zero_bubble(shape);
    return one_forward_one_backward(shape);
  }

  void quiesce() override {}
  void destroy() override { delete this; }

 private:
  void check_micro_batches(int ranks, int micro_batches) const {
    if (virtual_stages_ == 1 || micro_batches % ranks == 0) return;
    throw ConfigError(
        message("schedule = \"interleaved-1f1b\" runs micro-batches in rounds of ", ranks,
                " (mesh.pipeline), and ", micro_batches, " is no multiple; ",
                "change train.global_batch_size or micro_batch_size, or use \"1f1b\""));
  }

  std::vector<int> units_of_chunks(const Plan& plan, int chunks) const {
    const int num_units = static_cast<int>(plan.units.size());
    if (chunks > num_units)
      throw ConfigError(message("mesh.pipeline x virtual_stages = ", chunks, " chunks, but the ",
                                "model has ", num_units, " units (embedding, ", num_units - 2,
                                " layers, head); use at most ", num_units));
    if (units_.empty()) return balance(costs(plan), chunks);
    const int sum = std::accumulate(units_.begin(), units_.end(), 0);
    if (static_cast<int>(units_.size()) != chunks || sum != num_units)
      throw ConfigError(message("units = ", listed(units_), " are ", units_.size(), " chunks of ",
                                sum, " units together, but there are ", chunks, " chunks and ",
                                num_units, " units; for example ",
                                listed(balance(costs(plan), chunks))));
    return units_;
  }

  // Multiply-adds per token: products, and for a layer attention over half the sequence on average.
  static std::vector<double> costs(const Plan& plan) {
    std::vector<double> all;
    for (const UnitInfo& unit : plan.units) {
      double cost = static_cast<double>(plan.shape.features);
      if (unit.kind != UnitKind::embedding)
        for (const Parameter* parameter : unit.parameters)
          if (parameter->shape.size() == 2) cost += static_cast<double>(parameter->num_elements());
      if (unit.kind == UnitKind::layer)
        cost += static_cast<double>(plan.shape.tokens * plan.shape.features);
      all.push_back(cost);
    }
    return all;
  }

  std::string schedule_;
  int virtual_stages_;
  std::vector<int> units_;  // of each chunk; empty: balanced
};

constexpr cleave_option kOptions[] = {
    {"schedule", CLEAVE_OPTION_ENUM, "\"1f1b\"", 0, 0, "gpipe|1f1b|interleaved-1f1b|zb-h1", "",
     "order of forward and backward over the micro-batches", 0},
    {"virtual_stages", CLEAVE_OPTION_INT, "1", 1, 64, nullptr, "chunks",
     "interleaved-1f1b: parts of the network that a rank holds", 0},
    {"units", CLEAVE_OPTION_INT_LIST, "[]", 1, 1e6, nullptr, "",
     "units of each part in order (embedding, layers, head); empty: balanced by their products", 0},
};

constexpr cleave_plugin kPlugin =
    strategy_plugin<Pipeline>("pipeline", "0.1.0", kOptions, std::size(kOptions));

}  // namespace
}  // namespace cleave

CLEAVE_EXPORT_PLUGIN(cleave::kPlugin)
