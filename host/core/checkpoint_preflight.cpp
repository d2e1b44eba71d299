#include "core/checkpoint_preflight.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "cleave/error.h"
#include "core/exception_text.h"
#include "core/extra_state.h"
#include "core/saved_state.h"
#include "core/shared_text.h"

namespace cleave {

namespace {

// A file that rank 0 makes and the others must find: they see the same folder.
class Marker {
 public:
  explicit Marker(const std::filesystem::path& directory)
      : path_(directory / message(".seen-", ::getpid())) {
    std::ofstream(path_) << "";
  }
  ~Marker() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::string name() const { return path_.filename().string(); }

 private:
  std::filesystem::path path_;
};

void check_space(const std::filesystem::path& directory, int64_t needed_bytes) {
  const auto free_bytes = std::filesystem::space(directory).available;
  if (free_bytes >= static_cast<uintmax_t>(needed_bytes)) return;
  throw ConfigError(message(directory.string(), ": ", free_bytes, " bytes are free, but one ",
                            "checkpoint takes ", needed_bytes, "; free some, or use another disk"));
}

}  // namespace

std::unique_ptr<CheckpointDirectory> open_checkpoint_directory(const TrainerContext& context) {
  const std::filesystem::path& path = context.config.checkpoint.directory;
  Comm& world = context.communicators.control();
  const auto refuse = [&](const std::string& mine) {
    const std::string fault = first_fault(world, mine);
    if (!fault.empty())
      throw ConfigError(message(context.config.where("checkpoint.directory"), ": ", fault));
  };
  const ExtraStates extra(context);
  std::unique_ptr<CheckpointDirectory> directory;
  std::optional<Marker> marker;
  refuse(fault_of([&] {
    if (context.rank != 0) return;
    directory = std::make_unique<CheckpointDirectory>(path);
    check_space(path, bytes_of(stored_tensors(context.model.parameters)) +
                          bytes_of(extra.stored_tensors()));
    marker.emplace(path);
  }));
  const std::string name = gather_texts(world, marker ? marker->name() : "")[0];
  const bool is_seen = std::filesystem::exists(path / name);
  refuse(is_seen ? ""
                 : message(path.string(), " is not the folder that rank 0 sees there; name ",
                           "one on a file system that all ranks share"));
  return directory;  // the marker goes when all have looked
}

}  // namespace cleave
