#include "compare/result_json.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Spread& spread) {
  return {{"median", spread.median}, {"low", spread.low}, {"high", spread.high}};
}

Json to_json(const Repetition& repetition) {
  const RunFigures& run = repetition.figures;
  return {{"repetition", repetition.number},
          {"seconds", repetition.seconds},
          {"step_ms", run.step_ms},
          {"tokens_per_s", run.tokens_per_s},
          {"exposed_communication_ms", run.exposed_ms},
          {"wire_bytes", run.wire_bytes},
          {"loss", run.loss},
          {"peak_memory_mib", run.peak_memory_mib},
          {"resident_mib", run.resident_mib}};
}

Json to_json(const CompareLink& link) {
  Json json = {{"name", link.name}};
  if (link.is_limited)
    json.update({{"nodes", link.nodes}, {"rate", link.rate}, {"delay", link.delay}});
  return json;
}

void add_figures(Json& json, const RowFigures& figures) {
  json["tokens_per_s"] = to_json(figures.tokens_per_s);
  json["step_ms"] = to_json(figures.step_ms);
  json["exposed_communication_ms"] = to_json(figures.exposed_ms);
  json["wire_bytes"] = to_json(figures.wire_bytes);
  json["loss"] = to_json(figures.loss);
  json["peak_memory_mib"] = figures.peak_memory_mib;
  json["resident_mib"] = figures.resident_mib;
  if (figures.speed_up) json["speed_up"] = *figures.speed_up;
  if (figures.efficiency) json["efficiency"] = *figures.efficiency;
}

Json to_json(const RowResult& row, const CompareResult& result) {
  Json json = {{"label", label(row.row)},        {"is_base", row.row.is_base},
               {"ranks", row.row.ranks},         {"backend", row.row.backend},
               {"strategy", row.row.strategy},   {"transform", row.row.transform},
               {"status", to_string(row.status)}};
  if (!row.row.link.name.empty()) json["link"] = to_json(row.row.link);
  if (!row.reason.empty()) json["reason"] = row.reason;
  if (const auto figures = figures_of(row, result)) add_figures(json, *figures);
  json["overrides"] = row.row.overrides;
  json["command"] = row.command;
  json["folder"] = row.folder.string();
  json["facts"] = row.facts;
  json["repetitions"] = Json::array();
  for (const Repetition& repetition : row.repetitions)
    json["repetitions"].push_back(to_json(repetition));
  return json;
}

Json to_json(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Json json = Json::object();
  for (const auto& [name, value] : pairs) json[name] = value;
  return json;
}

}  // namespace

std::string compare_json(const CompareResult& result) {
  Json rows = Json::array();
  for (const RowResult& row : result.rows) rows.push_back(to_json(row, result));
  const Json all = {{"complete", result.is_complete},
                    {"started", result.started},
                    {"config", result.config.file.string()},
                    {"run", result.config.run.string()},
                    {"steps", result.steps},
                    {"tokens_per_step", result.tokens_per_step},
                    {"skipped_steps", result.config.skipped_steps},
                    {"repetitions", result.config.repetitions},
                    {"limit_s", result.config.limit_s},
                    {"machine", to_json(result.machine)},
                    {"versions", to_json(result.versions)},
                    {"environment", to_json(result.environment)},
                    {"rows", rows}};
  // what a run printed may be anything
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool is_compare_json(const std::filesystem::path& file) {
  std::ifstream in(file);
  const Json all = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  return all.is_object() && all.contains("tokens_per_step") && all.contains("rows");
}

}  // namespace cleave
