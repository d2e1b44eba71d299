#include "describe.h"

#include <algorithm>
#include <array>

#include "cleave/error.h"
#include "describe_rows.h"
#include "keys.h"
#include "option_table.h"

namespace cleave {
namespace {

std::string full_type(ValueType type) {
  if (type == ValueType::text_list) return "list of strings";
  if (type == ValueType::integer_list) return "list of ints";
  return std::string(type_name(type));
}

std::string accepts(const Domain& domain) {
  std::string text = describe_range(domain);
  if (domain.type != ValueType::choice) return text;
  for (const auto& choice : split_choices(domain.choices))
    text += (text.empty() ? "" : ", ") + choice;
  return text;
}

std::string fallback(const Key& key) {
  switch (key.fallback.kind) {
    case Default::Kind::required:
      return "required";
    case Default::Kind::value:
      return std::string(key.fallback.toml);
    case Default::Kind::derived:
      return "derived";
    case Default::Kind::none:
      break;
  }
  return "none";
}

/// A plugin's text may hold anything, the terminal should not get it.
bool is_control(unsigned char c) {
  return c < 0x20 || c == 0x7f;
}

/// One line a row, columns as wide as their widest entry; columns without any entry are left out.
std::string align(const std::vector<KeyRow>& rows) {
  using Cells = std::array<std::string, 6>;
  std::vector<Cells> lines = {{"key", "type", "default", "accepts", "unit", "what"}};
  for (const KeyRow& row : rows)
    lines.push_back({row.key, row.type, row.fallback, row.accepts, row.unit, row.doc});
  for (Cells& cells : lines)
    for (std::string& cell : cells) std::replace_if(cell.begin(), cell.end(), is_control, ' ');
  std::array<size_t, 6> widths = {};
  for (size_t column = 0; column < widths.size(); ++column) {
    const bool has_entry = std::any_of(lines.begin() + 1, lines.end(),
                                       [&](const Cells& cells) { return !cells[column].empty(); });
    for (const Cells& cells : lines)
      if (has_entry) widths[column] = std::max(widths[column], cells[column].size());
  }
  std::string text;
  for (const Cells& cells : lines) {
    std::string line;
    for (size_t column = 0; column < widths.size(); ++column) {
      if (widths[column] == 0) continue;
      line += "  " + cells[column] + std::string(widths[column] - cells[column].size(), ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

}  // namespace

cleave_option as_option(const OptionDescription& option) {
  return {option.key.c_str(),  option.type,        option.default_value.c_str(),
          option.minimum,      option.maximum,     option.choices.c_str(),
          option.unit.c_str(), option.doc.c_str(), option.same_on_all_ranks ? 0 : 1};
}

void require_usable(const PluginDescription& plugin) {
  std::string error = plugin.error;
  if (error.empty()) {
    std::vector<cleave_option> options;
    for (const OptionDescription& option : plugin.options) options.push_back(as_option(option));
    error = find_option_table_fault(options.data(), static_cast<uint32_t>(options.size()));
  }
  if (error.empty()) return;
  throw ConfigError(message(kind_name(plugin.kind), " plugin ", plugin.name, " (",
                            plugin.file.string(), "): ", error));
}

std::string_view type_name(ValueType type) {
  switch (type) {
    case ValueType::boolean:
      return "bool";
    case ValueType::integer:
      return "int";
    case ValueType::number:
      return "float";
    case ValueType::text:
      return "string";
    case ValueType::choice:
      return "enum";
    case ValueType::path:
      return "path";
    case ValueType::name:
      return "name";
    case ValueType::bytes:
      return "bytes";
    case ValueType::duration:
      return "duration";
    case ValueType::text_list:
    case ValueType::integer_list:
      break;
  }
  return "list";
}

std::string kind_name(cleave_plugin_kind kind) {
  return kind == CLEAVE_STRATEGY ? "strategy" : "communication";
}

KeyRow row_of(const Key& key) {
  return {std::string(key.leaf()), full_type(key.domain.type),   fallback(key),
          accepts(key.domain),     std::string(key.domain.unit), std::string(key.doc)};
}

std::vector<KeyRow> rows_of_table(std::string_view table) {
  std::vector<KeyRow> rows;
  for (const Key& key : keys())
    if (key.table() == table) rows.push_back(row_of(key));
  return rows;
}

std::vector<KeyRow> rows_of_plugin(const PluginDescription& plugin) {
  std::vector<KeyRow> rows;
  for (const OptionDescription& option : plugin.options) {
    const Domain domain = domain_of(as_option(option));
    const bool is_no_path = domain.type == ValueType::path && option.default_value == "\"\"";
    rows.push_back({option.key, full_type(domain.type), is_no_path ? "none" : option.default_value,
                    accepts(domain), option.unit,
                    option.doc + (option.same_on_all_ranks ? "" : " (may differ between ranks)")});
  }
  return rows;
}

std::string describe_host() {
  std::string text;
  for (const auto table : table_names()) {
    if (table == "strategy")
      text +=
          "[strategy.<name>] and [communication.<backend>]\n"
          "  options of that plugin: host describe <name>; host plugins lists them\n\n";
    else
      text += message("[", table, "]\n", align(rows_of_table(table)), '\n');
    if (table == "communication")
      text += message("[", kAxisTable, "]\n", align(rows_of_table(kAxisTable)), '\n');
  }
  text.pop_back();
  return text;
}

std::string describe_plugin(const PluginDescription& plugin) {
  require_usable(plugin);
  const std::string kind = kind_name(plugin.kind);
  std::string text = message(kind, ' ', plugin.name, ' ', plugin.version, "\n  file  ",
                             plugin.file.string(), "\n  use   ");
  text += plugin.kind == CLEAVE_STRATEGY
              ? message("[strategy.", plugin.name, "]")
              : message("[communication] backend = ", quote_toml(plugin.name));
  if (plugin.options.empty()) return text + "\n\nno options\n";
  return text + message("\n\noptions in [", kind, '.', plugin.name, "]\n") +
         align(rows_of_plugin(plugin));
}

}  // namespace cleave
