#include "core/checkpoint_saver.h"

#include <ATen/ATen.h>
#include <filesystem>

#include "cleave/error.h"
#include "core/checkpoint_manifest.h"
#include "core/exception_text.h"
#include "core/extra_state.h"
#include "core/shared_text.h"

namespace cleave {

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Up to which step the checkpoints in `directory` are this run's; -1: none.
int64_t continued_step(const CheckpointReader* resumed, const std::filesystem::path& directory) {
  std::error_code ignored;
  if (!resumed || !std::filesystem::equivalent(resumed->folder() / "..", directory, ignored))
    return -1;
  return resumed->manifest().step;
}

}  // namespace

CheckpointSaver::CheckpointSaver(const TrainerContext& context, const Optimizer& optimizer,
                                 std::unique_ptr<CheckpointDirectory> directory,
                                 const CheckpointReader* resumed, std::ostream& console)
    : context_(context),
      optimizer_(optimizer),
      console_(console),
      config_(context.config.checkpoint),
      directory_(std::move(directory)),
      parts_(saved_parts(context.parameters, optimizer, context.mesh, context.rank)),
      last_saved_(resumed ? resumed->manifest().step : 0) {
  const ExtraStates extra(context);
  for (SavedPart& part : extra.saved_parts()) parts_.push_back(std::move(part));
  manifest_ = make_manifest(context, extra);
  set_aside(resumed);
  int64_t elements = 0;
  for (const SavedPart& part : parts_) elements += part.slice.num_elements();
  if (!config_.asynchronous && context.device.is_cpu()) return;
  MemoryScope scope(MemoryCategory::other);
  const auto f32 = at::TensorOptions().dtype(at::kFloat);
  copy_ = at::empty({elements}, f32.pinned_memory(context.device.is_cuda()));
}

CheckpointSaver::~CheckpointSaver() {
  cancelled_ = true;
  if (job_.valid()) job_.wait();
  if (directory_ && stage_ != Stage::idle) directory_->discard(current_.step);
}

void CheckpointSaver::set_aside(const CheckpointReader* resumed) {
  const std::string fault =
      first_fault(context_.communicators.control(), fault_of([&] {
                    if (!directory_) return;
                    const int64_t step = continued_step(resumed, config_.directory);
                    if (const auto earlier = directory_->set_aside(step))
                      console_ << "checkpoint: those that this run does not go on from are now in "
                               << earlier->string() << std::endl;
                  }));
  if (!fault.empty())
    throw ConfigError(message(context_.config.where("checkpoint.directory"), ": ", fault));
}

bool CheckpointSaver::after_step(int64_t step, bool stop_requested) {
  const auto begin = Clock::now();
  bool is_active = stage_ != Stage::idle;
  const bool stop = advance(stop_requested);
  const bool is_last = step == context_.config.train.steps;
  if (stop || is_last || step % config_.every_steps == 0) {
    is_active = true;
    save(step);
  }
  stall_ms_ = is_active ? std::optional(ms_since(begin)) : std::nullopt;
  return stop;
}

void CheckpointSaver::require_saved() const {
  if (!last_failure_.empty())
    throw RuntimeError(message("the last checkpoint could not be saved: ", last_failure_));
}

bool CheckpointSaver::is_working() const {
  return job_.valid() && job_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

// Ranks tell each other whether they still write, and all draw the same conclusion.
bool CheckpointSaver::advance(bool stop_requested) {
  Comm& world = context_.communicators.control();
  const int64_t mine[] = {is_working(), stop_requested};
  at::Tensor all = at::empty({2 * world.size()}, at::kLong);
  world.all_gather(all, at::tensor(at::ArrayRef<int64_t>(mine), at::kLong)).wait_host();
  const int64_t* flags = all.const_data_ptr<int64_t>();
  bool any_works = false, stop = false;
  for (int rank = 0; rank < world.size(); ++rank) {
    any_works |= flags[2 * rank] != 0;
    stop |= flags[2 * rank + 1] != 0;
  }
  if (any_works) return stop;
  if (stage_ == Stage::files)
    conclude_files();
  else if (stage_ == Stage::manifest)
    conclude_manifest();
  return stop;
}

// In turns far below any timeout of communication, however slow a disk is.
void CheckpointSaver::finish() {
  while (stage_ != Stage::idle) {
    if (job_.valid()) job_.wait_for(std::chrono::seconds(1));
    advance(false);
  }
}

void CheckpointSaver::save(int64_t step) {
  finish();
  current_ = {step, Clock::now()};
  last_failure_.clear();
  if (!begin_folder(step)) return;
  copy_parts();
  stage_ = Stage::files;
  const auto folder = CheckpointDirectory::temporary(config_.directory, step);
  job_ = std::async(std::launch::async, [this, folder] {
    const WrittenShard shard =
        write_shard(folder, shard_file_name(context_.rank), written_parts_, cancelled_);
    verify_shard(folder, shard);
    return to_text(shard);
  });
  if (!config_.asynchronous) finish();
}

bool CheckpointSaver::begin_folder(int64_t step) {
  std::string fault = fault_of([&] {
    if (context_.rank != 0) return;
    directory_->begin(step, bytes_of(manifest_.tensors));
  });
  fault = first_fault(context_.communicators.control(), fault);
  if (fault.empty()) return true;
  fail(fault);
  return false;
}

// Where nothing is copied (written at once, on the CPU) the file is made of the tensors themselves.
void CheckpointSaver::copy_parts() {
  written_parts_.clear();
  int64_t first = 0;
  for (const SavedPart& part : parts_) {
    const int64_t count = part.slice.num_elements();
    at::Tensor values = part.values;
    if (copy_.defined()) {
      values = copy_.narrow(0, first, count);
      values.copy_(part.values);
      first += count;
    }
    written_parts_.push_back(
        {part.name, part.slice, {values.const_data_ptr<float>(), static_cast<size_t>(count)}});
  }
}

void CheckpointSaver::conclude_files() {
  std::string text;
  const std::string mine = fault_of([&] { text = job_.get(); });
  Comm& world = context_.communicators.control();
  const std::string fault = first_fault(world, mine);
  if (!fault.empty()) return fail(fault);
  const std::vector<std::string> texts = gather_texts(world, text);
  stage_ = Stage::manifest;
  if (context_.rank != 0) return;
  std::vector<WrittenShard> shards;
  for (const std::string& shard : texts) shards.push_back(parse_shard(shard));
  Manifest manifest = manifest_;
  set_step(manifest, current_.step);
  add_shards(manifest, shards);
  current_.bytes = manifest.size_bytes();
  job_ = std::async(std::launch::async, [this, step = current_.step, text = to_text(manifest)] {
    const std::filesystem::path folder = directory_->publish(step, text);
    directory_->retain(static_cast<int>(config_.keep));
    return folder.string();
  });
}

void CheckpointSaver::conclude_manifest() {
  std::string folder;
  const std::string mine = fault_of([&] {
    if (job_.valid()) folder = job_.get();
  });
  const std::string fault = first_fault(context_.communicators.control(), mine);
  if (!fault.empty()) return fail(fault);
  stage_ = Stage::idle;
  last_saved_ = current_.step;
  if (context_.rank == 0)
    console_ << "checkpoint: step " << current_.step << " saved to " << folder << ", "
             << current_.bytes << " bytes in " << ms_since(current_.begin) / 1000 << " s"
             << std::endl;
}

void CheckpointSaver::fail(const std::string& reason) {
  stage_ = Stage::idle;
  last_failure_ = message("step ", current_.step, ": ", reason);
  if (directory_) directory_->discard(current_.step);
  if (config_.on_failure == "stop")
    throw RuntimeError(message("the checkpoint could not be saved: ", last_failure_));
  if (context_.rank == 0)
    console_ << "checkpoint: not saved: " << last_failure_ << "; training goes on, "
             << (last_saved_ > 0 ? message("the last one is that of step ", last_saved_)
                                 : "there is none yet")
             << std::endl;
}

}  // namespace cleave
