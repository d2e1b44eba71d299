// Compressed gradients: the reducer's exchange (all-reduce of ddp; reduce-scatter of zero and fsdp)
// in fewer bytes, for links that are slower than the sums that are worth saving. Lossy, and not
// bitwise the exact run; every rank still gets the same bits.
//
// P gradient elements, N ranks on the axis, B = block. Sent per rank, in units of (N-1)/N P bytes;
// x the number of reductions of a step:
//                  all_reduce        reduce_scatter
//   exact          8                 4
//   wire = "bf16"  4                 2
//   wire = "int8"  2 (1 + 4/B)       1 + 4/B         0.254 of exact at B = 256; a parameter's last
//                                                    block, or one that ranks share, has its own
//                                                    scale
// ranks_per_machine = k > 1 (int8): the k ranks of a machine sum in float32, then each quantises
// and exchanges a k-th of the machine's sum with one rank of each of the M = N/k machines. Sent per
// rank and reduction:
//   inside a machine   8 (k-1)/k P; all_reduce: (1 + 4/B) (k-1)/k P more
//   between machines   (1 + 4/B) (M-1)/M P/k; all_reduce: twice as much; 0.254 of exact
// Otherwise each rank sends for itself, or float32 sums cross, where mpi forms exact sums in two
// levels; sent between machines of k ranks, over exact:
//   wire = "bf16"  3/4            1
//   wire = "int8"  (1 + k)/8      k/4               times 1 + 4/B
// Ranks of other axes with equal copies of a parameter keep equal bits where sums inside a machine
// do not depend on where in a buffer a value lies (mpi between processes of a machine; k = 2).
// wire = "bf16": rounded to nearest even, summed in float32, rounded once: relative error 2^-9 of
//   each term and of the sum, without bias. No state.
// wire = "int8": blocks of B elements as bytes times a float32 scale, largest magnitude / 127
//   (block-wise quantisation: Dettmers et al. 2022, arXiv:2110.02861; both ways compressed as in
//   1-bit Adam's all-to-all and all-gather, Tang et al. 2021, arXiv:2102.02888). Error at most half
//   a scale per element and quantisation: of each rank's gradient, and of all_reduce's sum. An
//   element below 1/254 of its block's largest is rounded to 0 each time: that is a bias, which
//   error feedback takes away over the steps (Seide et al. 2014, 1-bit SGD; Karimireddy et al.
//   2019, arXiv:1901.09847): what was not sent is kept, 4 P bytes on each rank also where the
//   reduced gradient is sharded, and added to the next gradient. The owner of a block keeps the
//   error of the sum in its own residual of that block, so there is no second one. Residuals are
//   in checkpoints; their sum over the ranks is what training has still to get (of a reduce_scatter
//   with ranks_per_machine over the machines, whose ranks have equal ones).
// Buffers beside that: bf16 2 x 2, int8 3 x 2 (all_reduce) or 2 x 2 (reduce_scatter) bytes per
// element of the largest bucket, with ranks_per_machine 1 + 1/k for the second 2. Not finite
// elements make their block not finite on every rank.
#include <algorithm>
#include <optional>

#include "bf16_exchange.h"
#include "cleave/error.h"
#include "cleave/strategy.h"
#include "int8_exchange.h"

namespace cleave {
namespace {

constexpr char kAxis[] = "data";  // that ranks_per_machine divides
constexpr char kInner[] = "data.inner";
constexpr char kOuter[] = "data.outer";

class Compress final : public Strategy, public GradientTransformer, public ExtraState {
 public:
  explicit Compress(const cleave_options* values) {
    const Options options(values);
    is_int8_ = options.text("wire") == "int8";
    int8_ = {options.integer("block"), is_int8_ && options.flag("error_feedback")};
    ranks_per_machine_ = static_cast<int>(options.integer("ranks_per_machine"));
  }

  void plan(Plan& plan) override {
    plan.offers = {"gradients.lossy"};
    plan.needs = {{"gradients.exchanged", "it changes what a reducer of gradients sends"}};
    plan.conflicts = {{"gradients.hybrid",
                       "gradients that are summed in two stages have two errors to feed back"}};
    divide(plan);
  }

  void plan_exchange(const CommUse& use, Plan& plan) override {
    axis_ = use.axis;
    CLEAVE_CHECK(!is_divided_ || axis_ == kAxis, "gradients are summed along ", axis_);
    if (is_int8_)
      plan_int8(use, plan);
    else
      plan_bf16(use, plan);
  }

  void start(const Runtime& runtime) override {
    Int8Groups groups;
    if (is_divided_) {
      groups = {&runtime.comm(kInner), &runtime.comm(kOuter)};
      check_machine(*groups.inner, runtime.device);
    }
    if (is_int8_)
      int8_exchange_.emplace(int8_, runtime.device, groups);
    else
      bf16_exchange_.emplace(runtime.device);
  }

  GradientExchange& transform(GradientExchange&) override {
    if (is_int8_) return *int8_exchange_;
    return *bf16_exchange_;
  }

  std::vector<StateKind> state_kinds() const override {
    if (!int8_.error_feedback || axis_.empty()) return {};
    return {{"residual", is_divided_ && is_scattered_ ? kOuter : axis_}};
  }
  at::Tensor state(const StateKind&, const Parameter& parameter) override {
    return int8_exchange_->residual(parameter);
  }

  void* query(std::string_view id) override {
    if (id == GradientTransformer::kInterface) return static_cast<GradientTransformer*>(this);
    if (id == ExtraState::kInterface) return static_cast<ExtraState*>(this);
    return nullptr;
  }

  void quiesce() override {
    int8_exchange_.reset();
    bf16_exchange_.reset();
  }
  void destroy() override { delete this; }

 private:
  void divide(Plan& plan) {
    const int ranks = plan.mesh.size(kAxis);
    if (ranks_per_machine_ == 1 || ranks == 1) return;
    if (!is_int8_)
      throw ConfigError(message("ranks_per_machine = ", ranks_per_machine_,
                                ", but wire = \"bf16\" has no use for it; remove "
                                "ranks_per_machine, or use wire = \"int8\""));
    if (ranks % ranks_per_machine_ != 0)
      throw ConfigError(message("ranks_per_machine = ", ranks_per_machine_,
                                " does not divide the axis ", kAxis, " of size ", ranks,
                                "; give the number of its ranks that are on one machine, or 1"));
    plan.divided_axes = {{kAxis, ranks_per_machine_}};
    is_divided_ = true;
  }

  void check_machine(const Comm& comm, at::Device device) const {
    constexpr int64_t kBytes = 1 << 20;  // any
    // bytes, since of what may be packed a backend does not know; negative: it never does (nccl)
    if (comm.network_bytes(CLEAVE_ALL_GATHER, at::kByte, kBytes, device.type()) > 0)
      throw ConfigError(message("ranks_per_machine = ", ranks_per_machine_,
                                ", but such neighbours along ", kAxis,
                                " are on several machines; give the number of ranks of this axis "
                                "that a machine has"));
  }

  void plan_int8(const CommUse& use, Plan& plan) {
    const int ranks = plan.mesh.size(use.axis), inner = is_divided_ ? ranks_per_machine_ : 1;
    const int rank = plan.mesh.coordinate(plan.rank, use.axis);
    std::vector<WireLayout> layouts;
    int64_t elements = 0, exchanged = 0, gathered = 0, gathered_inside = 0, residual = 0;
    for (const GradientBucket& bucket : use.gradient_buckets) {
      const WireLayout& layout = layouts.emplace_back(bucket, ranks, int8_.block, inner);
      const int owner = layout.owner_of(rank), column = layout.column_of(owner);
      for (const GradientPart& part : bucket.parts) elements += part.layout.elements;
      exchanged +=
          std::max(layout.column_bytes(column), layout.outer_ranks() * layout.chunk_bytes[owner]);
      residual += layout.elements * static_cast<int64_t>(sizeof(float));
      CLEAVE_CHECK(bucket.mode == use.gradient_buckets[0].mode, "a reducer mixes modes");
      is_scattered_ = bucket.mode == ExchangeMode::reduce_scatter;
      if (is_scattered_) continue;
      gathered += layout.column_bytes(column);
      gathered_inside += layout.total_bytes;
    }
    const std::string outer_axis = is_divided_ ? kOuter : use.axis;
    add_use(outer_axis, CLEAVE_ALL_TO_ALL, at::kByte, exchanged, use, plan);
    if (gathered > 0) add_use(outer_axis, CLEAVE_ALL_GATHER, at::kByte, gathered, use, plan);
    if (is_divided_) {
      const auto bytes = elements * static_cast<int64_t>(sizeof(float));
      add_use(kInner, CLEAVE_ALL_REDUCE, at::kFloat, bytes, use, plan);
      if (gathered_inside > 0)
        add_use(kInner, CLEAVE_ALL_GATHER, at::kByte, gathered_inside, use, plan);
    }
    if (int8_.error_feedback)
      plan.memory.push_back({"what compress did not send yet, for all of the gradient on each rank",
                             residual, MemoryCategory::gradients});
    plan.memory.push_back(
        {"compressed gradients on their way", Int8Exchange::buffer_bytes(layouts, rank)});
  }

  static void plan_bf16(const CommUse& use, Plan& plan) {
    int64_t bytes = 0;
    for (const GradientBucket& bucket : use.gradient_buckets)
      for (const GradientPart& part : bucket.parts)
        bytes += part.layout.elements * static_cast<int64_t>(c10::elementSize(at::kBFloat16));
    add_use(use.axis, use.op, at::kBFloat16, bytes, use, plan);
    plan.memory.push_back(
        {"compressed gradients on their way", Bf16Exchange::buffer_bytes(use.gradient_buckets)});
  }

  static void add_use(const std::string& axis, cleave_op op, at::ScalarType dtype, int64_t bytes,
                      const CommUse& replaced, Plan& plan) {
    plan.communication.push_back({axis, op, dtype,
                                  static_cast<double>(bytes * replaced.exchanges_per_step) *
                                      wire_factor(op, plan.mesh.size(axis))});
  }

  bool is_int8_;
  Int8Options int8_{};
  int ranks_per_machine_;
  bool is_divided_ = false;
  bool is_scattered_ = false;  // each rank gets its block of the sum
  std::string axis_;           // along which gradients are summed; "": none are
  std::optional<Int8Exchange> int8_exchange_;
  std::optional<Bf16Exchange> bf16_exchange_;
};

constexpr cleave_option kOptions[] = {
    {"wire", CLEAVE_OPTION_ENUM, "\"int8\"", 0, 0, "int8|bf16", "",
     "what gradients are sent as: bytes with a scale per block, a quarter of float32; or bfloat16, "
     "half of it",
     0},
    {"block", CLEAVE_OPTION_INT, "256", 16, 65536, nullptr, "elements",
     "int8: neighbours that share a scale", 0},
    {"error_feedback", CLEAVE_OPTION_BOOL, "true", 0, 0, nullptr, "",
     "int8: keep what was not sent, 4 bytes per element of the whole gradient on each rank, and "
     "send it later; false: it is lost, and training may stop short",
     0},
    {"ranks_per_machine", CLEAVE_OPTION_INT, "1", 1, 65536, nullptr, "ranks",
     "int8: neighbours along the axis data that share a machine; they sum in float32 before "
     "anything is quantised, so that a machine sends its sum once; 1: every rank sends for itself",
     0},
};

constexpr cleave_plugin kPlugin =
    strategy_plugin<Compress>("compress", "0.1.0", kOptions, std::size(kOptions));

}  // namespace
}  // namespace cleave

CLEAVE_EXPORT_PLUGIN(cleave::kPlugin)
