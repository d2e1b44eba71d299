// A TOML file and the --set overrides as one flat list in file order, each item with its origin.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "run_config.h"
#include "value.h"

namespace cleave {

/// A key with its value, or a table (kind "a table"; it stands before its keys).
struct Item {
  std::vector<std::string> path;  ///< {"strategy", "<name>", "bucket_bytes"}
  Value value;
  Origin origin;

  bool is_table() const { return value.kind == "a table"; }
};

/// Parses `file`, then replaces or adds what the overrides say; those come last, in their order.
/// `shortest_key`: parts that the key of an override has at least; 1 where keys stand outside of
/// tables. Throws ConfigError: no such file, a directory, unreadable, empty, not valid TOML, not
/// table.key=value.
std::vector<Item> read_document(const std::filesystem::path& file,
                                const std::vector<std::string>& overrides, size_t shortest_key = 2);

/// The same without a file.
std::vector<Item> read_overrides(const std::vector<std::string>& overrides);

/// "strategy.<name>.bucket_bytes"; a part that isn't a bare TOML key stands in quotes.
std::string dotted(const std::vector<std::string>& path);

}  // namespace cleave
