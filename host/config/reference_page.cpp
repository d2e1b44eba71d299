// docs/reference.md, from the tables.
#include <algorithm>
#include <tuple>

#include "cleave/error.h"
#include "compare_config.h"
#include "describe.h"
#include "describe_rows.h"
#include "keys.h"

namespace cleave {
namespace {

constexpr const char* kHead = R"(# Reference

Every key of a run's TOML file and every option of the plugins in this tree. This page is generated:
`host describe --markdown > docs/reference.md`. A default that reads *required* must be written,
*derived* follows from other keys, *none* means that the key may be absent.

A size is a number of bytes or a text: `"4 KiB"`, `"1.5 GB"` (kB, MB, GB, TB are powers of 1000;
KiB, MiB, GiB, TiB of 1024). A duration is a number in the option's unit or a text: `"200 ms"`,
`"30 s"`, `"5 min"`, `"1 h"`.

## Keys of the host
)";

constexpr const char* kCompareHead = R"(
## Keys of host compare

They stand outside of tables in the file that `host compare --config` names. Its tables
`[backends]`, `[strategies]` and `[transforms]` hold choices, `NAME = {table.key = value}`, `[links]`
holds the links below; every other table of a run's file replaces that run's keys in all rows.
)";

constexpr const char* kPluginsHead = R"(
## Plugins

A strategy is on when its table is there; backends are those that `communication.backend` and
`[communication.<axis>]` name. Values are the same on all ranks unless an option says that they may
differ.
)";

/// For a cell of a table: one line, no separator of cells, nothing that Markdown takes for a tag.
std::string escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '*' || c == '`' || c == '\\') escaped += '\\';
    escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return escaped;
}

/// A value of the file's own language; `required` and the like are words of this page.
std::string fallback_cell(const std::string& fallback) {
  if (fallback == "required" || fallback == "derived" || fallback == "none")
    return '*' + fallback + '*';
  const bool is_plain = fallback.find_first_of("|`\n") == std::string::npos;
  return is_plain ? '`' + fallback + '`' : escape(fallback);
}

std::string table_of(const std::vector<KeyRow>& rows) {
  std::string text = "\n| key | type | default | accepts | what |\n|---|---|---|---|---|\n";
  for (const KeyRow& row : rows) {
    const bool has_unit = !row.unit.empty() && row.type != "bytes";
    const std::string space = has_unit && !row.accepts.empty() ? " " : "";
    text += message("| `", row.key, "` | ", row.type, " | ", fallback_cell(row.fallback), " | ",
                    escape(row.accepts + space + (has_unit ? row.unit : "")), " | ",
                    escape(row.doc), " |\n");
  }
  return text;
}

std::string table_of(std::span<const Key> keys) {
  std::vector<KeyRow> rows;
  for (const Key& key : keys) rows.push_back(row_of(key));
  return table_of(rows);
}

std::string section_of(std::string_view table) {
  return message("\n### [", escape(std::string(table)), "]\n", table_of(rows_of_table(table)));
}

std::string section_of(const PluginDescription& plugin) {
  require_usable(plugin);
  const std::string table = kind_name(plugin.kind) + '.' + plugin.name;
  const std::string head = message("\n### [", table, "]\n\nversion ", plugin.version, '\n');
  return head + (plugin.options.empty() ? "\nno options\n" : table_of(rows_of_plugin(plugin)));
}

}  // namespace

std::string reference_page(std::vector<PluginDescription> plugins) {
  std::string text = kHead;
  for (const auto table : table_names()) {
    if (table != "strategy") text += section_of(table);
    if (table == "communication") text += section_of(kAxisTable);
  }
  text +=
      kCompareHead + table_of(compare_keys()) + "\n### [links]\n" + table_of(compare_link_keys());
  text += kPluginsHead;
  std::sort(plugins.begin(), plugins.end(), [](const auto& a, const auto& b) {
    return std::tie(a.kind, a.name, a.file) < std::tie(b.kind, b.name, b.file);
  });
  for (const PluginDescription& plugin : plugins) text += section_of(plugin);
  return text;
}

}  // namespace cleave
