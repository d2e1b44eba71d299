#include "layouts.h"

#include "cleave/error.h"
#include "support/equivalence.h"

namespace cleave::test {

void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.name;
}

Layout one_rank() {
  return {"one rank", 1, {}, {}};
}

Layout ddp(int ranks) {
  return {message("ddp on ", ranks), ranks, {}, {strategy("ddp")}};
}

Layout zero(int stage, int ranks) {
  return {message("zero-", stage, " on ", ranks),
          ranks,
          {},
          {strategy("zero", {{"stage", std::to_string(stage)}})}};
}

Layout fsdp(int ranks) {
  return {message("fsdp on ", ranks), ranks, {}, {strategy("fsdp")}};
}

Layout hybrid_fsdp() {
  return {"fsdp on 4 in groups of 2", 4, {}, {strategy("fsdp", {{"shard_size", "2"}})}};
}

Layout tensor_parallel(int ranks, bool sequence_parallel) {
  const char* value = sequence_parallel ? "true" : "false";
  return {message("tensor ", ranks, sequence_parallel ? ", sequence parallel" : ""),
          ranks,
          {{"tensor", ranks}},
          {strategy("tensor-parallel", {{"sequence_parallel", value}})}};
}

Layout pipeline(int ranks, const std::string& schedule) {
  PluginTable table = strategy("pipeline", {{"schedule", '"' + schedule + '"'}});
  if (schedule == "interleaved-1f1b")
    table.options.push_back({"virtual_stages", "2", {"tiny.toml"}});
  return {message("pipeline ", ranks, ", ", schedule), ranks, {{"pipeline", ranks}}, {table}};
}

Layout three_axes(const Layout& data) {
  Layout layout = data;
  layout.name = message("tensor 2 x pipeline 2 x data 2, ", data.strategies.at(0).name);
  for (const auto& option : data.strategies[0].options) layout.name += " " + option.toml;
  layout.ranks = 8;
  layout.mesh = {{"data", 2}, {"tensor", 2}, {"pipeline", 2}};
  layout.strategies.push_back(strategy("tensor-parallel"));
  layout.strategies.push_back(strategy("pipeline"));
  return layout;
}

Layout with(Layout layout, const PluginTable& strategy) {
  layout.name += ", " + strategy.name;
  layout.strategies.push_back(strategy);
  return layout;
}

Layout compressed_in_pairs(const Layout& layout) {
  return with(layout, strategy("compress", {{"ranks_per_machine", "2"}}));
}

RunConfig on(RunConfig config, const Layout& layout) {
  config.mesh = layout.mesh;
  config.strategies = layout.strategies;
  return config;
}

}  // namespace cleave::test
