#include "command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "cleave/error.h"
#include "compare_config.h"
#include "option_table.h"

namespace cleave {
namespace {

constexpr const char* kLaterVerbs[] = {"plan"};

void add_config_options(CLI::App& app, CommandLine& line) {
  app.add_option("--config", line.config, "the run's TOML file")->required()->type_name("FILE");
  // one value a mention, or it would swallow what follows
  app.add_option("--set", line.overrides, "replaces a key's value; may be given again")
      ->allow_extra_args(false)
      ->type_name("TABLE.KEY=VALUE");
}

void add_train(CLI::App& app, CommandLine& line) {
  app.description("Trains the model that the file describes.");
  add_config_options(app, line);
  app.add_flag("--print-config", line.print_config, "print every value and its origin, then leave");
}

void add_check(CLI::App& app, CommandLine& line) {
  app.description("Solves the plan and prints it; needs no devices and no other ranks.");
  add_config_options(app, line);
  app.add_option("--world-size", line.world_size, "ranks to plan for")
      ->check(CLI::Range(1, std::numeric_limits<int32_t>::max()))
      ->type_name("N");
  app.add_option("--schedule", line.schedule_picture, "draw the pipeline's schedule (SVG)")
      ->type_name("FILE");
}

void add_verify(CLI::App& app, CommandLine& line) {
  app.description("Trains a few steps on these ranks and on one, and compares the numbers.");
  add_config_options(app, line);
  app.add_option("--steps", line.verify_steps, "at most so many steps (10)")
      ->check(CLI::Range(1, std::numeric_limits<int32_t>::max()))
      ->type_name("N");
}

void add_bench(CLI::App& app, CommandLine& line) {
  app.description(
      "Measures what a communication backend does on these ranks and links. Started as training "
      "is: mpirun -np 4 host bench; or with --ranks N as threads of one process.");
  BenchRequest& request = line.bench;
  app.add_option("--backend", request.backend, "mpi, or what is on the search path (mpi)")
      ->type_name("NAME");
  app.add_option("--ranks", request.ranks, "threads of this process, over --backend local")
      ->type_name("N");
  app.add_option("--op", request.ops,
                 "all_reduce, reduce_scatter, all_gather, broadcast, all_to_all, send_recv (to the "
                 "next rank, from the one before), barrier (all that the backend has)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("OP,...");
  app.add_option("--bytes", request.bytes,
                 "of the larger buffer, rounded up to whole elements for each rank: 4096, 64KiB "
                 "(8 B, then 64 B to 256MiB in powers of 4)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N,...");
  app.add_option("--dtype", request.dtype, "of the elements (float32)")->type_name("DTYPE");
  app.add_option("--set", request.overrides,
                 "an option of the backend, as in a run: communication.mpi.algorithm=ring; or "
                 "train.deterministic=true; may be given again")
      ->allow_extra_args(false)
      ->type_name("TABLE.KEY=VALUE");
  app.add_option("--json", request.json, "write rows, fits and versions")->type_name("FILE");
  app.add_option("--plot", request.plot, "draw bandwidth and time (SVG)")->type_name("FILE");
}

void add_compare(CLI::App& app, CommandLine& line) {
  app.description(
      "Runs backends x strategies x transforms x links on one model and writes a page and a JSON "
      "file of speed, communication, memory and loss. Started without mpirun; it starts that "
      "itself.");
  app.add_option("--config", line.config, "the comparison's TOML file")
      ->required()
      ->type_name("FILE");
  app.add_option("--set", line.overrides, "replaces a key's value, the file's or the run's")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_flag("--print-rows", line.print_rows, "print the rows and their commands, then leave");
  app.footer(compare_help());
}

void add_prepare(CLI::App& app, CommandLine& line) {
  app.description("Turns text files into the tokens that data.path names.");
  app.add_option("INPUT", line.prepare.inputs, "text files")->required()->type_name("FILE");
  app.add_option("--output", line.prepare.output, "prefix of the .bin and .idx files")
      ->required()
      ->type_name("PREFIX");
  app.add_option("--document-separator", line.prepare.document_separator,
                 "a line equal to this ends a document; without it each file is one")
      ->type_name("LINE");
}

void add_describe(CLI::App& app, CommandLine& line) {
  app.description("Tells what a plugin's options are, or the host's own keys.");
  auto* plugin = app.add_option("PLUGIN", line.describe.plugin,
                                "<name>, strategy.<name> or communication.<name>");
  plugin->type_name("NAME");
  auto* json = app.add_flag("--json", line.describe.json, "print JSON");
  app.add_flag("--markdown", line.describe.markdown,
               "print the reference page: the host's keys and all plugins that are found")
      ->excludes(plugin, json);
}

void add_plugins(CLI::App& app, CommandLine& line) {
  app.description("Lists the plugins that are found, and why those that can't be used can't.");
  app.add_flag("--failed", line.failed_only, "only those that can't be used");
}

void add_export(CLI::App& app, CommandLine& line) {
  app.description(
      "Writes a Hugging Face folder: of a checkpoint's weights, or of those with which the "
      "training that a config describes would begin (a copy of model.path, or random ones).");
  auto* checkpoint = app.add_option("--checkpoint", line.checkpoint,
                                    "a checkpoint, or a directory: its newest undamaged one");
  checkpoint->type_name("DIR");
  app.add_option("--dtype", line.export_dtype, "of a checkpoint's exported weights (float32)")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->needs(checkpoint);
  auto* config = app.add_option("--config", line.config, "the run's TOML file");
  config->type_name("FILE")->excludes(checkpoint);
  app.add_option("--set", line.overrides, "replaces a key's value; may be given again")
      ->allow_extra_args(false)
      ->type_name("TABLE.KEY=VALUE")
      ->needs(config);
  app.add_option("--to", line.export_to, "the folder; must not exist, or be empty")
      ->required()
      ->type_name("DIR");
  app.final_callback([&line] {
    if (line.checkpoint.empty() && line.config.empty())
      throw CLI::ValidationError("--checkpoint DIR or --config FILE is needed");
  });
}

void add_inspect(CLI::App& app, CommandLine& line) {
  app.description("Shows what a checkpoint holds, and whether it is undamaged.");
  app.add_option("DIR", line.checkpoint, "a checkpoint, or a directory that holds some")
      ->required()
      ->type_name("DIR");
  app.add_flag("--json", line.json, "print JSON");
}

struct VerbEntry {
  const char* name;
  Verb verb;
  void (*add)(CLI::App& app, CommandLine& line);
};
constexpr VerbEntry kVerbs[] = {
    {"train", Verb::train, &add_train},          {"check", Verb::check, &add_check},
    {"verify", Verb::verify, &add_verify},       {"bench", Verb::bench, &add_bench},
    {"compare", Verb::compare, &add_compare},    {"prepare", Verb::prepare, &add_prepare},
    {"describe", Verb::describe, &add_describe}, {"plugins", Verb::plugins, &add_plugins},
    {"export", Verb::export_model, &add_export}, {"inspect", Verb::inspect, &add_inspect}};

/// The nearest option of `app` to one that it doesn't have.
std::string option_advice(const CLI::App& app, const std::string& unknown) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_positional()) names.push_back(option->get_name());
  const std::string nearest = nearest_name(unknown.substr(0, unknown.find('=')), names);
  return nearest.empty() ? "see " + app.get_name() + " --help" : "did you mean " + nearest + "?";
}

/// CLI11's texts may span lines; ours don't.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void parse(CLI::App& app, std::vector<std::string> arguments, CommandLine& line) {
  app.set_version_flag("--version", "", "print the versions of all libraries, then leave");
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    line.verb = Verb::help;
    line.text = app.help();
  } catch (const CLI::CallForVersion&) {
    line.verb = Verb::version;
  } catch (const CLI::ParseError& error) {
    // a misspelt option is also a missing one: name what was typed
    if (const auto unknown = app.remaining(); !unknown.empty())
      throw ConfigError(message(app.get_name(), ": ", unknown.front(), " is not expected here; ",
                                option_advice(app, unknown.front())));
    throw ConfigError(
        message(app.get_name(), ": ", one_line(error.what()), "; see ", app.get_name(), " --help"));
  }
}

/// All verbs, each after `prefix`, the default first.
std::string verb_list(const std::string& prefix) {
  std::string all;
  for (const VerbEntry& entry : kVerbs) all += (all.empty() ? "" : ", ") + prefix + entry.name;
  return all;
}

const VerbEntry& find_verb(const std::string& name) {
  std::vector<std::string> names;
  for (const VerbEntry& entry : kVerbs) {
    if (name == entry.name) return entry;
    names.emplace_back(entry.name);
  }
  for (const char* later : kLaterVerbs)
    if (name == later) throw ConfigError("host " + name + ": not available yet; see host --help");
  const std::string nearest = nearest_name(name, names);
  throw ConfigError(
      "host: " + name + " is not a verb; " +
      (nearest.empty() ? "the verbs are " + verb_list("") : "did you mean " + nearest + "?"));
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  CommandLine line;
  std::string verb = kVerbs[0].name;
  const bool has_verb = !arguments.empty() && !arguments[0].starts_with("-");
  if (has_verb) {
    verb = arguments[0];
    arguments.erase(arguments.begin());
  }
  const VerbEntry& entry = find_verb(verb);
  line.verb = entry.verb;
  CLI::App app;
  app.name(has_verb ? "host " + verb : "host");
  entry.add(app, line);
  if (!has_verb)
    app.footer("Verbs, the default first: " + verb_list("host ") + "; --help on each.");
  parse(app, std::move(arguments), line);
  return line;
}

}  // namespace cleave
