// What to write instead of a name that isn't known.
#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>

#include "cleave/error.h"
#include "keys.h"
#include "option_table.h"

namespace cleave {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Insertions, deletions, replacements and swaps of neighbours; capital letters do not count.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::array<std::vector<size_t>, 3> rows;  // of the prefixes of a: two before, one before, this
  for (auto& row : rows) row.resize(b.size() + 1);
  std::iota(rows[2].begin(), rows[2].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    std::rotate(rows.begin(), rows.begin() + 1, rows.end());
    const auto& [before_last, last, current] = rows;
    rows[2][0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[2][j] = std::min({last[j] + 1, current[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) rows[2][j] = std::min(rows[2][j], before_last[j - 2] + 1);
    }
  }
  return rows[2][b.size()];
}

std::string join(const std::vector<std::string>& names, const std::string& separator) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : separator) + name;
  return text;
}

/// The tables other than `prefix` that have this very key.
std::vector<std::string> tables_with(const std::string& prefix, const std::string& leaf) {
  std::vector<std::string> tables;
  for (const Key& key : keys())
    if (key.leaf() == leaf && key.table() != prefix)
      tables.push_back(message("[", key.table(), "]"));
  return tables;
}

/// "optimizer.lr" for "Lr", from all tables.
std::string nearest_key(const std::string& leaf) {
  std::vector<std::string> leaves;
  for (const Key& key : keys()) leaves.emplace_back(key.leaf());
  const std::string nearest = nearest_name(leaf, leaves);
  for (const Key& key : keys())
    if (key.leaf() == nearest) return std::string(key.name);
  return "";
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string wanted = lower(name);
  std::string nearest;
  // a third of the letters may differ, more would be guessing
  size_t best = std::clamp<size_t>(name.size() / 3, 1, 3) + 1;
  for (const auto& candidate : candidates) {
    const size_t distance = edit_distance(wanted, lower(candidate));
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string unknown_key_advice(const std::string& prefix, const std::string& key,
                               const std::vector<std::string>& siblings) {
  if (const auto tables = tables_with(prefix, key); !tables.empty())
    return key + " belongs in " + join(tables, " or ");
  if (const auto nearest = nearest_name(key, siblings); !nearest.empty())
    return "did you mean " + prefix + "." + nearest + "?";
  if (is_table_name(key)) return message("[", key, "] is a table of its own");
  if (const auto nearest = nearest_key(key); !nearest.empty())
    return "did you mean " + nearest + "?";
  if (prefix.empty()) return unknown_table_advice(key);
  if (siblings.empty()) return message("[", prefix, "] takes no keys");
  return message("[", prefix, "] has ", join(siblings, ", "));
}

std::string unknown_table_advice(const std::string& table) {
  const std::vector<std::string> names(table_names().begin(), table_names().end());
  if (const auto nearest = nearest_name(table, names); !nearest.empty())
    return message("did you mean [", nearest, "]?");
  return message("the tables are [", join(names, "], ["), "]");
}

}  // namespace cleave
