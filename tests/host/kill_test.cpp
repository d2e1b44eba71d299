// Whatever is killed while checkpoints are written, the same command then goes on as if nothing had
// happened: nothing is lost but the steps after the last checkpoint.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "host_process.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 40;

std::string bytes_of(const fs::path& file) {
  std::ostringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  return bytes.str();
}

// CLEAVE_KILL_TRIES=60 for the long series.
int num_tries() {
  const char* tries = std::getenv("CLEAVE_KILL_TRIES");
  return tries ? std::atoi(tries) : 5;
}

// A save after every step, so that most of the time one is being written.
void write_saving_run(const fs::path& folder) {
  write_run(folder, {{"train.steps", std::to_string(kSteps)},
                     {"train.micro_batch_size", "6"},
                     {"strategy.ddp.bucket_bytes", ""},
                     {"strategy.zero.stage", "1"},
                     {"checkpoint.directory", "\"checkpoints\""},
                     {"checkpoint.every_steps", "1"},
                     {"checkpoint.keep", "2"}});
}

// Starts the run, kills some of it so many milliseconds after its start, or after its first
// checkpoint, and returns when all of it is gone. `victim`: shell words that name processes;
// $launcher is mpirun's, $ranks are its children.
void run_and_kill(const fs::path& folder, const std::string& victim, bool has_saved, int after_ms) {
  std::ofstream(folder / "kill.sh")
      << "mpirun -np 2 host --config run.toml > log 2>&1 & launcher=$!\n"
      << (has_saved
              ? "until [ -e checkpoints/latest ] || ! kill -0 $launcher; do sleep 0.05; done\n"
              : "")
      << "sleep " << after_ms / 1000.0 << "\n"
      << "ranks=$(pgrep -P $launcher)\n"
      << "kill -KILL " << victim << "\n"
      << "wait $launcher\n"
      << wait_until_gone("$ranks");
  const Outcome outcome = run_command("bash kill.sh", folder);
  EXPECT_LT(outcome.seconds, 100) << "ranks outlive what was killed: " << victim;
}

class Killed : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    straight_ = new TemporaryFolder;
    write_saving_run(straight_->path());
    const Outcome run = run_command("mpirun -np 2 host --config run.toml", straight_->path());
    ASSERT_EQ(run.exit_code, 0) << run.output;
  }
  static void TearDownTestSuite() { delete straight_; }

  static void expect_as_straight(const fs::path& folder, const std::string& what) {
    for (const char* key : {"step", "loss", "grad_norm", "lr"})
      EXPECT_EQ(metric(folder, key), metric(straight_->path(), key)) << key << what;
    const fs::path last = "checkpoints/step-000000" + std::to_string(kSteps);
    for (const char* rank : {"rank-00000.safetensors", "rank-00001.safetensors"})
      EXPECT_EQ(bytes_of(folder / last / rank), bytes_of(straight_->path() / last / rank)) << what;
  }

  static TemporaryFolder* straight_;
};
TemporaryFolder* Killed::straight_ = nullptr;

TEST_F(Killed, AtAnyMomentARunGoesOnAsIfItHadNotBeen) {
  const char* victims[] = {"$launcher $ranks", "${ranks##*[!0-9]}", "$launcher"};
  uint64_t state = 20;
  int num_resumed = 0;
  for (int i = 0; i < num_tries(); ++i) {
    const TemporaryFolder folder;
    write_saving_run(folder.path());
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const int after_ms = 700 + static_cast<int>((state >> 33) % 2500);
    const std::string victim = victims[i % 3];
    run_and_kill(folder.path(), victim, i % 2 == 1, after_ms);
    const Outcome again = run_command("mpirun -np 2 host --config run.toml", folder.path());
    const std::string what = ", try " + std::to_string(i) + ": " + victim + " killed after " +
                             std::to_string(after_ms) + " ms\n" + again.output;
    EXPECT_EQ(again.exit_code, 0) << what;
    EXPECT_FALSE(again.contains("passed over")) << what;
    num_resumed += again.contains("resumed: ");
    expect_as_straight(folder.path(), what);
  }
  RecordProperty("tries", num_tries());
  RecordProperty("resumed", num_resumed);
  EXPECT_GT(num_resumed, 0);
}

}  // namespace
}  // namespace cleave::test
