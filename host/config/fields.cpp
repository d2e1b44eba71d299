#include "fields.h"

namespace cleave {

void set_field(RunConfig& config, const Key& key, const Content& content) {
  std::visit(
      [&](auto access) {
        if constexpr (!std::is_same_v<decltype(access), std::monostate>) {
          auto& field = access(config);
          using T = std::remove_reference_t<decltype(field)>;
          if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, double>)
            field = std::get<T>(content);
          else if constexpr (std::is_constructible_v<T, std::string>)
            field = std::get<std::string>(content);
          else
            field = std::get<int64_t>(content);
        }
      },
      key.field);
}

void set_default(RunConfig& config, const Key& key) {
  if (key.fallback.kind != Default::Kind::value) return;
  const auto value = parse_toml_value(std::string(key.fallback.toml));
  set_field(config, key, check_value(std::string(key.name), *value, key.domain));
}

Content read_field(const RunConfig& config, const Key& key) {
  // the key table hands out mutable references, nothing is changed through this one
  auto& fields = const_cast<RunConfig&>(config);
  return std::visit(
      [&](auto access) -> Content {
        if constexpr (std::is_same_v<decltype(access), std::monostate>) {
          return {};
        } else {
          const auto& field = access(fields);
          using T = std::remove_cvref_t<decltype(field)>;
          if constexpr (std::is_same_v<T, std::optional<int64_t>>)
            return field ? Content(*field) : Content();
          else if constexpr (std::is_same_v<T, std::filesystem::path>)
            return field.empty() ? Content() : Content(field.string());
          else if constexpr (std::is_same_v<T, uint64_t>)
            return static_cast<int64_t>(field);
          else
            return field;
        }
      },
      key.field);
}

}  // namespace cleave
