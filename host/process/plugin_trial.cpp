#include "plugin_trial.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "cleave/error.h"
#include "config/option_table.h"
#include "plugin_child.h"
#include "plugin_library.h"

namespace cleave {
namespace {

// A plugin's libraries may come from a slow disk, for all ranks of a machine at once.
constexpr std::chrono::seconds kLimit{20};

// The first letter of what the child sends for each plugin: P for each phase that it begins, O for
// each of the texts of an option, then one E with the error.
constexpr char kPhase = 'P', kOption = 'O', kEnd = 'E';

struct Phase {
  const char* name;
  const char* remedy;
};
constexpr Phase kPhases[] = {
    {"loading it, which runs its static initialisers,", "do that work in create"},
    {"calling its entry function", "export a constant descriptor with CLEAVE_EXPORT_PLUGIN"},
    {"reading its option table", "end the table where num_options says, with texts in it"},
};

struct OptionNumbers {
  int32_t type;
  int32_t per_rank;
  double minimum;
  double maximum;
};
constexpr size_t kTextsPerOption = 6;

void send_option(const Send& send, const cleave_option& option) {
  const OptionNumbers numbers{option.type, option.per_rank, option.minimum, option.maximum};
  send(kOption + std::string(reinterpret_cast<const char*>(&numbers), sizeof numbers));
  for (const char* text :
       {option.key, option.default_value, option.choices, option.unit, option.doc})
    send(kOption + std::string(text ? text : ""));
}

OptionDescription receive_option(const std::string* texts) {
  OptionNumbers numbers;
  std::memcpy(&numbers, texts[0].data(), sizeof numbers);
  return {texts[1], numbers.type, texts[2], numbers.minimum,      numbers.maximum,
          texts[3], texts[4],     texts[5], numbers.per_rank == 0};
}

void run_trial(const PluginCandidate& candidate, const Send& send) {
  std::string error;
  try {
    send({&kPhase, 1});
    const PluginLibrary library(candidate.file);
    send({&kPhase, 1});
    const cleave_plugin* plugin = library.descriptor(candidate.note);
    send({&kPhase, 1});
    for (uint32_t i = 0; i < plugin->num_options; ++i) send_option(send, plugin->options[i]);
    const std::string fault = find_option_table_fault(plugin->options, plugin->num_options);
    if (!fault.empty()) throw ConfigError("its option table: " + fault);
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  send(kEnd + error);
}

std::string describe_end(size_t num_phases, const ChildOutcome& child) {
  const Phase& phase = kPhases[std::clamp<size_t>(num_phases, 1, std::size(kPhases)) - 1];
  const std::string output = child.output.empty() ? "" : " (" + child.output + ")";
  return message(phase.name, " ", child.fate, output, "; ", phase.remedy);
}

std::vector<OptionDescription> receive_options(const std::vector<std::string>& texts) {
  std::vector<OptionDescription> options;
  for (size_t i = 0; i + kTextsPerOption <= texts.size(); i += kTextsPerOption)
    options.push_back(receive_option(&texts[i]));
  return options;
}

/// Appends a trial for each plugin that the child came to.
void receive(const ChildOutcome& child, std::vector<PluginTrial>& trials) {
  size_t num_phases = 0;
  std::vector<std::string> texts;
  for (const std::string& sent : child.sent) {
    const std::string text = sent.substr(1);
    if (sent[0] == kPhase) ++num_phases;
    if (sent[0] == kOption) texts.push_back(text);
    if (sent[0] != kEnd) continue;
    trials.push_back(
        {text, text.empty() ? receive_options(texts) : std::vector<OptionDescription>{}});
    num_phases = 0;
    texts.clear();
  }
  if (!child.fate.empty()) trials.push_back({describe_end(num_phases, child), {}});
}

}  // namespace

std::vector<PluginTrial> try_plugins(const std::vector<PluginCandidate>& candidates) {
  std::vector<PluginTrial> trials;
  while (trials.size() < candidates.size())
    receive(run_in_child(
                [&](const Send& send) {
                  for (size_t i = trials.size(); i < candidates.size(); ++i)
                    run_trial(candidates[i], send);
                },
                kLimit),
            trials);
  trials.resize(candidates.size());  // a child may fall over after the last answer
  return trials;
}

}  // namespace cleave
