// Ways to split the tiny model over ranks.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace cleave::test {

struct Layout {
  std::string name;
  int ranks;
  std::map<std::string, int> mesh;
  std::vector<PluginTable> strategies;
};

void PrintTo(const Layout& layout, std::ostream* out);

Layout one_rank();
Layout ddp(int ranks);
Layout zero(int stage, int ranks);
Layout fsdp(int ranks);
/// On 4 ranks: shards in groups of 2, copies of them between the groups.
Layout hybrid_fsdp();
Layout tensor_parallel(int ranks, bool sequence_parallel = false);
/// `schedule` as TOML spells it, without quotes; interleaved ones have two stages a rank.
Layout pipeline(int ranks, const std::string& schedule = "1f1b");
/// tensor 2 x pipeline 2 x data 2, with `data`'s strategies along the last.
Layout three_axes(const Layout& data);
/// The same with one strategy more.
Layout with(Layout layout, const PluginTable& strategy);
/// The same with compress, two ranks to a machine.
Layout compressed_in_pairs(const Layout& layout);

/// Puts the layout into a config.
RunConfig on(RunConfig config, const Layout& layout);

}  // namespace cleave::test
