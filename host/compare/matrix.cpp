#include "compare/matrix.h"

#include "cleave/error.h"

namespace cleave {
namespace {

void append(std::vector<std::string>& all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

std::string names_of(const std::vector<PluginTable>& plugins) {
  std::string text;
  for (const PluginTable& plugin : plugins) text += (text.empty() ? "" : " + ") + plugin.name;
  return text.empty() ? "no strategy" : text;
}

void refuse_side_effects(const RunConfig& run) {
  if (run.checkpoint.is_on())
    throw ConfigError(
        run.where("checkpoint.directory") +
        ": a row would go on from another's checkpoint; compare without [checkpoint]");
  if (!run.model.export_folder.empty())
    throw ConfigError(run.where("model.export") +
                      ": every row would write it; compare without model.export");
}

// The run's own messages name an override by its text: what this file says has a better place.
RunConfig load_run(const CompareConfig& config) {
  std::vector<std::string> overrides;
  for (const SharedOverride& entry : config.shared) overrides.push_back(entry.text);
  try {
    RunConfig run = load_run_config(config.run, overrides);
    refuse_side_effects(run);
    return run;
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    for (const SharedOverride& entry : config.shared)
      if (const std::string name = "--set " + entry.text; text.starts_with(name + ":"))
        throw ConfigError(entry.origin.text + text.substr(name.size()));
    throw;
  }
}

CompareRow base_row(const CompareConfig& config, const RunConfig& run) {
  CompareRow row{run.communication.backend.name, names_of(run.strategies), "none", {}, 1, true, {}};
  row.overrides = config.shared_texts(true);
  for (const auto& [axis, size] : run.mesh)
    if (size > 1) row.overrides.push_back(message("mesh.", axis, "=1"));
  return row;
}

}  // namespace

std::vector<CompareRow> make_rows(const CompareConfig& config, const RunConfig& run) {
  const CompareRow base = base_row(config, run);
  const auto or_base = [](std::vector<CompareChoice> choices, const std::string& name) {
    if (choices.empty()) choices.push_back({name, {}});
    return choices;
  };
  std::vector<CompareChoice> transforms = {{base.transform, {}}};
  transforms.insert(transforms.end(), config.transforms.begin(), config.transforms.end());
  std::vector<CompareLink> links = config.links;
  if (links.empty()) links.emplace_back();

  std::vector<CompareRow> rows = {base};
  for (const CompareLink& link : links)
    for (const int64_t ranks : config.ranks)
      for (const CompareChoice& backend : or_base(config.backends, base.backend))
        for (const CompareChoice& strategy : or_base(config.strategies, base.strategy))
          for (const CompareChoice& transform : transforms) {
            if (ranks == 1) continue;
            CompareRow row{backend.name, strategy.name, transform.name, link, ranks, false, {}};
            row.overrides = config.shared_texts(true);
            for (const CompareChoice* choice : {&backend, &strategy, &transform})
              append(row.overrides, choice->overrides);
            rows.push_back(std::move(row));
          }
  return rows;
}

std::string group_label(const CompareRow& row) {
  if (row.is_base) return "one rank";
  return message(row.ranks, " ranks", row.link.name.empty() ? "" : ", ", row.link.name);
}

std::string short_label(const CompareRow& row) {
  return row.backend + ", " + row.strategy + (row.transform == "none" ? "" : ", " + row.transform);
}

std::string label(const CompareRow& row) {
  return row.is_base ? group_label(row) : group_label(row) + ", " + short_label(row);
}

RunConfig load_shared_run(const CompareConfig& config) {
  RunConfig run = load_run(config);
  if (config.skipped_steps >= run.train.steps)
    throw ConfigError(message(config.where("skipped_steps"), " = ", config.skipped_steps,
                              " leaves none of ", run.train.steps,
                              " steps; give more train.steps"));
  if (!config.strategies.empty()) run.strategies.clear();
  return run;
}

}  // namespace cleave
