#include "core/resume.h"

#include <algorithm>
#include <sstream>

#include "checkpoint/checkpoint_directory.h"
#include "cleave/error.h"
#include "core/checkpoint_manifest.h"
#include "core/exception_text.h"
#include "core/extra_state.h"
#include "core/shared_text.h"

namespace cleave {

namespace {

// Every rank has its own share to verify; all get the first fault that one finds.
std::string open_and_verify(Comm& world, const std::string& folder,
                            std::unique_ptr<CheckpointReader>& reader) {
  const std::vector<std::string> faults =
      gather_texts(world, fault_of([&] {
                     reader = std::make_unique<CheckpointReader>(folder);
                     reader->verify(world.rank(), world.size());
                   }));
  const auto first = std::find_if(faults.begin(), faults.end(),
                                  [](const std::string& text) { return !text.empty(); });
  return first == faults.end() ? "" : *first;
}

// Rank 0 looks, so that all ranks try the same ones: newest first, or the one that is named.
std::vector<std::string> candidates(const TrainerContext& context,
                                    const std::filesystem::path& where, std::ostream& console) {
  std::string found;
  if (context.rank == 0) {
    std::string fault;
    read_pointer(where, fault);
    if (!fault.empty()) console << "checkpoint: " << fault << std::endl;
    for (const FoundCheckpoint& checkpoint : find_checkpoints(where))
      found += checkpoint.folder.string() + "\n";
  }
  std::istringstream lines(gather_texts(context.communicators.control(), found)[0]);
  std::vector<std::string> folders;
  for (std::string line; std::getline(lines, line);) folders.push_back(line);
  return folders;
}

void print_chosen(std::ostream& console, const CheckpointReader& reader, const RunConfig& config) {
  const Manifest& manifest = reader.manifest();
  console << "resumed: " << reader.folder().string() << ", step " << manifest.step << " of "
          << config.train.steps << ", " << manifest.tokens << " tokens, saved by " << manifest.mesh;
  for (const std::string& strategy : manifest.strategies) console << ", " << strategy;
  console << "\n";
  for (const std::string& change : changed_keys(manifest, config))
    console << "changed: " << change << "\n";
  console << std::flush;
}

}  // namespace

std::unique_ptr<CheckpointReader> find_resume_point(const TrainerContext& context,
                                                    std::ostream& console) {
  const CheckpointConfig& config = context.config.checkpoint;
  if (!config.is_on() || config.resume == "none") return nullptr;
  const bool is_auto = config.resume == "auto";
  const std::filesystem::path place =
      is_auto ? config.directory : std::filesystem::path(config.resume);
  std::vector<std::string> folders = candidates(context, place, console);
  if (folders.empty() && is_auto) return nullptr;
  const bool is_one = folders.empty();  // named itself, not the directory that holds it
  if (is_one) folders = {place.string()};

  Comm& world = context.communicators.control();
  const std::string where = context.config.where("checkpoint.resume");
  std::string faults;
  for (const std::string& folder : folders) {
    std::unique_ptr<CheckpointReader> reader;
    const std::string fault = open_and_verify(world, folder, reader);
    if (fault.empty()) {
      check_resumable(message(where, ": ", folder), reader->manifest(), context);
      const ExtraStates extra(context);
      if (context.rank == 0) {
        print_chosen(console, *reader, context.config);
        extra.print_changes(reader->manifest(), console);
      }
      return reader;
    }
    if (is_one) throw ConfigError(message(where, ": ", fault));
    if (context.rank == 0) console << "checkpoint: passed over: " << fault << std::endl;
    faults += "; " + fault;
  }
  throw ConfigError(message(where, ": none of the ", folders.size(), " checkpoints in ",
                            place.string(), " can be used", faults,
                            "; name another folder, or \"none\" to begin anew"));
}

}  // namespace cleave
