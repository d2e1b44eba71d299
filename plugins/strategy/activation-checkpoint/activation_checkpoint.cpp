// Recompute: activations that forward drops and backward makes again. It sends nothing and changes
// no bit: what runs again is the same operation on the same input. The host does it; this strategy
// says where.
//
//   full       a decoder layer keeps its input and runs again in backward (Chen et al. 2016,
//              arXiv:1604.06174)
//   selective  outputs that no product with a weight makes (Korthikanti et al. 2022,
//              arXiv:2205.05198): of the norms, of attention, of the MLP's activation
//
// Kept per decoder layer and token, in elements of the compute dtype, + float32 numbers (C hidden,
// H heads, K key/value heads, D head size, F intermediate, T tokens of a sequence):
//   off        4 C + 2 H D + 2 K D + 3 F   + H + 2
//   selective  norm -2 C, attention -H D and -H float32, mlp -F; all three:
//              2 C +   H D + 2 K D + 2 F   + 2
//              (norm saves nothing where tensor-parallel's sequence_parallel gathers its output)
//   full       C, and what one layer keeps when off while its backward runs; with every = n the
//              layers in between keep what they keep when off
// Computed again per layer and token, beside 6 times its weights + 6 H D T FLOPs (attention is
// causal, so half of its products):
//   selective  attention 2 H D T, norm and mlp no product
//   full       2 (2 C H D + 2 C K D + 3 C F) + 2 H D T, a third of the layer's work
//
// Embedding and head are left alone: the embedding keeps the tokens alone, and the head's backward
// comes next to its forward, so what it drops would be made again at once.
#include <algorithm>
#include <array>

#include "cleave/error.h"
#include "cleave/strategy.h"

namespace cleave {
namespace {

struct Operation {
  std::string_view name;
  bool Recompute::*flag;
};
constexpr std::array kOperations = {Operation{"norm", &Recompute::norm},
                                    Operation{"mlp", &Recompute::mlp},
                                    Operation{"attention", &Recompute::attention}};

Recompute selected(const std::vector<std::string_view>& names) {
  constexpr std::string_view kAdvice = "; use some of \"norm\", \"mlp\", \"attention\"";
  if (names.empty())
    throw ConfigError(message("operations is empty", kAdvice, ", or leave the strategy out"));
  Recompute recompute;
  for (std::string_view name : names) {
    const auto operation = std::find_if(kOperations.begin(), kOperations.end(),
                                        [&](const Operation& one) { return one.name == name; });
    if (operation == kOperations.end())
      throw ConfigError(message("operations has \"", name, "\", which is none", kAdvice));
    recompute.*operation->flag = true;
  }
  return recompute;
}

class ActivationCheckpoint final : public Strategy, public Partitioner {
 public:
  explicit ActivationCheckpoint(const cleave_options* values) {
    const Options options(values);
    every_ = options.integer("every");
    const Recompute operations = selected(options.text_list("operations"));
    if (options.text("mode") == "selective") {
      if (every_ != 1)
        throw ConfigError(message("every = ", every_, " belongs to mode = \"full\"; leave it out, ",
                                  "or use mode = \"full\""));
      recompute_ = operations;
    } else {
      if (!(operations.norm && operations.mlp && operations.attention))
        throw ConfigError(
            "operations belongs to mode = \"selective\"; leave it out, or use mode = "
            "\"selective\"");
      recompute_.unit = true;
    }
  }

  void partition(Plan& plan) override {
    int64_t layer = 0;
    for (UnitInfo& unit : plan.units) {
      if (unit.kind != UnitKind::layer) continue;
      const Recompute& set = unit.recompute;
      if (set.unit || set.norm || set.attention || set.mlp)
        throw ConfigError(message(unit.name, " is recomputed already, as another strategy set; ",
                                  "use one of the two"));
      if (layer++ % every_ == 0) unit.recompute = recompute_;
    }
  }

  void plan(Plan& plan) override { plan.offers = {"activations.recomputed"}; }
  void start(const Runtime&) override {}
  void* query(std::string_view id) override {
    return id == Partitioner::kInterface ? static_cast<Partitioner*>(this) : nullptr;
  }
  void quiesce() override {}
  void destroy() override { delete this; }

 private:
  int64_t every_;
  Recompute recompute_;
};

constexpr cleave_option kOptions[] = {
    {"mode", CLEAVE_OPTION_ENUM, "\"full\"", 0, 0, "full|selective", "",
     "full: a decoder layer keeps its input and runs again in backward; selective: outputs of "
     "cheap operations are made again, those of matrix products kept",
     0},
    {"every", CLEAVE_OPTION_INT, "1", 1, 1e6, nullptr, "layers",
     "full: every n-th decoder layer, the first one included; selective: all layers, must be 1", 0},
    {"operations", CLEAVE_OPTION_STRING_LIST, "[\"norm\", \"mlp\", \"attention\"]", 0, 0, nullptr,
     "", "selective: whose outputs are made again; full: must be left out", 0},
};

constexpr cleave_plugin kPlugin = strategy_plugin<ActivationCheckpoint>(
    "activation-checkpoint", "0.1.0", kOptions, std::size(kOptions));

}  // namespace
}  // namespace cleave

CLEAVE_EXPORT_PLUGIN(cleave::kPlugin)
