#include "core/agreement.h"

#include <ATen/ATen.h>
#include <xxhash.h>

#include <fstream>
#include <map>

#include "cleave/error.h"

namespace cleave {

namespace {

// The most frequent of the ranks' values; the first rank's when several are as frequent.
int64_t majority(const std::vector<int64_t>& values) {
  std::map<int64_t, int> counts;
  for (int64_t value : values) ++counts[value];
  int64_t best = values[0];
  for (int64_t value : values)
    if (counts[value] > counts[best]) best = value;
  return best;
}

std::string odd_ranks(const std::vector<int64_t>& values) {
  const int64_t expected = majority(values);
  std::string ranks;
  for (size_t rank = 0; rank < values.size(); ++rank)
    if (values[rank] != expected) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  return ranks;
}

}  // namespace

uint64_t fingerprint(const std::string& text) {
  return XXH3_64bits(text.data(), text.size());
}

uint64_t fingerprint_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(file)), {});
  return fingerprint(content);
}

Fingerprint plugin_fingerprint(const std::string& what, const std::string& file,
                               const std::string& shared_values) {
  return {what, fingerprint(message(fingerprint_file(file), "\n", shared_values))};
}

namespace {

// Throws when `value` is not the same on all ranks.
void compare(Comm& world, const std::string& what, uint64_t value) {
  const auto i64 = at::TensorOptions().dtype(at::kLong);
  const at::Tensor mine = at::scalar_tensor(static_cast<int64_t>(value), i64).view({1});
  at::Tensor all = at::empty({world.size()}, i64);
  world.all_gather(all, mine).wait_host();
  const int64_t* values = all.const_data_ptr<int64_t>();
  const std::string odd = odd_ranks({values, values + world.size()});
  if (odd.empty()) return;
  throw ConfigError(message("ranks differ in ", what, ": rank ", odd, " of ", world.size(),
                            " has another than the others; give all ranks the same files and the ",
                            "same command line"));
}

}  // namespace

void check_agreement(Comm& world, const std::vector<Fingerprint>& fingerprints) {
  std::string names;
  for (const Fingerprint& item : fingerprints) names += item.what + "\n";
  compare(world, "the list of plugins", fingerprint(names));
  for (const Fingerprint& item : fingerprints) compare(world, item.what, item.hash);
}

}  // namespace cleave
