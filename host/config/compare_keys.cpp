// The keys of a comparison's file: parsing, defaults, help and the reference page use these tables.
#include "cleave/error.h"
#include "compare_config.h"
#include "describe.h"

namespace cleave {
namespace {

constexpr Domain integer(int64_t minimum, int64_t maximum) {
  return {ValueType::integer, static_cast<long double>(minimum), static_cast<long double>(maximum)};
}
constexpr Default value(std::string_view toml) {
  return {Default::Kind::value, toml};
}
constexpr Default kRequired{Default::Kind::required};
constexpr Domain kPath{ValueType::path};
constexpr Domain kText{ValueType::text};

constexpr Key kKeys[] = {
    {"config",
     {},
     kPath,
     kRequired,
     "the run that all rows share, seen from this file; where [strategies] is there, without its "
     "strategies"},
    {"ranks",
     {},
     {ValueType::integer_list, 1, 65536},
     kRequired,
     "world sizes; 1 is always run, once and without choices, as the base of the speed-up"},
    {"repetitions",
     {},
     integer(1, 1000),
     value("3"),
     "passes over all rows, so that noise hits all alike"},
    {"directory",
     {},
     kPath,
     value("\"out/compare\""),
     "for index.html, compare.json and what each run writes: new, or an earlier comparison's"},
    {"limit_s", {}, integer(1, 1'000'000), value("600"), "seconds that one run may take"},
    {"skipped_steps",
     {},
     integer(0, 1'000'000),
     value("2"),
     "first steps of each run that don't count (warm-up)"},
    {"netlab", {}, kPath, value("\"tools/netlab\""), "the program that makes [links]"},
};

constexpr Key kLinkKeys[] = {
    {"nodes", {}, integer(1, 99), value("2"), "the row's ranks are spread evenly over them"},
    {"rate", {}, kText, value("\"none\""), "of each node, each way: 200mbit, 1gbit"},
    {"delay", {}, kText, value("\"none\""), "of each packet: 500us, 5ms"},
};

constexpr const char* kExample =
    R"(The file names what is compared; every combination is a row, each row a run of this program:

  config = "run.toml"            # the run that all rows share; tables of this file replace its keys
  ranks = [1, 2]
  [train]
  steps = 30
  [backends]                     # NAME = {keys of the run}; without the table: what the run has
  mpi = {communication.backend = "mpi"}
  [strategies]
  NAME = {strategy.PLUGIN = {}}
  [transforms]                   # each besides none
  NAME = {strategy.PLUGIN.KEY = VALUE}
  [links]                        # without the table: this machine
  "1 Gbit/s" = {nodes = 2, rate = "1gbit"}

Keys:
)";

std::string lines_of(std::span<const Key> keys) {
  constexpr size_t kColumn = 16;
  std::string text;
  for (const Key& key : keys) {
    std::string name(key.name);
    name.resize(std::max(name.size() + 1, kColumn), ' ');
    const bool is_required = key.fallback.kind == Default::Kind::required;
    text += message("  ", name, key.doc, " (", is_required ? "required" : key.fallback.toml, ")\n");
  }
  return text;
}

}  // namespace

std::span<const Key> compare_keys() {
  return kKeys;
}

std::span<const Key> compare_link_keys() {
  return kLinkKeys;
}

std::string compare_help() {
  return kExample + lines_of(kKeys) + "Keys of a link:\n" + lines_of(kLinkKeys);
}

}  // namespace cleave
