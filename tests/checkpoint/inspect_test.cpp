#include "checkpoint/inspect.h"

#include <gtest/gtest.h>

#include <sstream>

#include "checkpoint_fixture.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

class Inspect : public testing::Test {
 protected:
  Inspect() {
    CheckpointDirectory directory(path());
    save(directory, row_pieces(2), 1);
    save(directory, cut_three_ways(), 2);
  }

  const fs::path& path() const { return directory_.path(); }
  fs::path checkpoint(int step) const { return path() / step_folder_name(step); }

  std::string table(const fs::path& folder, bool is_whole = true) const {
    std::ostringstream out;
    EXPECT_EQ(inspect(folder, false, out), is_whole) << out.str();
    return out.str();
  }

  Json json(const fs::path& folder, bool is_whole = true) const {
    std::ostringstream out;
    EXPECT_EQ(inspect(folder, true, out), is_whole) << out.str();
    return Json::parse(out.str());
  }

 private:
  TemporaryFolder directory_;
};

TEST_F(Inspect, ShowsACheckpointWithItsTensors) {
  const std::string text = table(checkpoint(2));
  for (const char* part :
       {"step        2\n", "tokens      24\n", "ranks       8 (pipeline 2 x data 2 x tensor 2)\n",
        "strategies  one, two\n", "dtype       bfloat16\n", "state       verified\n",
        "rank-00007.safetensors", "exp_avg_sq.model.norm.weight          [7]     4\n"})
    EXPECT_NE(text.find(part), std::string::npos) << text << "\nwanted " << part;
}

TEST_F(Inspect, ShowsADirectoryNewestFirst) {
  const std::string text = table(path());
  const size_t second = text.find("step-00000002  24"), first = text.find("step-00000001  12");
  EXPECT_LT(second, first) << text;
  EXPECT_NE(first, std::string::npos) << text;
  EXPECT_NE(text.find("latest: step-00000002\n"), std::string::npos) << text;
}

TEST_F(Inspect, GivesTheSameAsJson) {
  const Json rows = json(path());
  ASSERT_EQ(rows.size(), 2u);
  const Json& row = rows[0];
  EXPECT_EQ(row["folder"], checkpoint(2).string());
  EXPECT_EQ(row["step"], 2);
  EXPECT_EQ(row["tokens"], 24);
  EXPECT_EQ(row["world_size"], 8);
  EXPECT_EQ(row["mesh"], "pipeline 2 x data 2 x tensor 2");
  EXPECT_EQ(row["strategies"], Json({"one", "two"}));
  EXPECT_EQ(row["dtype"], "bfloat16");
  EXPECT_EQ(row["verified"], true);
  EXPECT_EQ(row["damage"], nullptr);
  int64_t bytes = 0;
  for (const Json& file : row["files"]) {
    EXPECT_EQ(file["bytes"], fs::file_size(checkpoint(2) / file["name"].get<std::string>()));
    bytes += file["bytes"].get<int64_t>();
  }
  EXPECT_EQ(row["bytes"], bytes);
  EXPECT_EQ(row["tensors"].size(), 6u);
  EXPECT_EQ(row["tensors"][0]["shape"], Json({13, 7}));
  EXPECT_EQ(row["tensors"][0]["slices"].size(), 4u);
  EXPECT_EQ(json(checkpoint(2)), Json::array({row}));
}

TEST_F(Inspect, KeepsARowForWhatIsDamaged) {
  std::string shard = read_file(checkpoint(2) / "rank-00005.safetensors");
  shard.back() = static_cast<char>(shard.back() ^ 1);
  write_file(checkpoint(2) / "rank-00005.safetensors", shard);
  fs::remove(checkpoint(1) / "manifest.json");
  const Json rows = json(path(), false);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["verified"], false);
  EXPECT_EQ(rows[0]["tokens"], 24);
  EXPECT_NE(rows[0]["damage"].get<std::string>().find("rank-00005.safetensors: bytes "),
            std::string::npos);
  EXPECT_EQ(rows[1]["step"], 1);
  EXPECT_EQ(rows[1]["verified"], false);
  EXPECT_NE(rows[1]["damage"].get<std::string>().find("no manifest.json"), std::string::npos);
  const std::string text = table(path(), false);
  EXPECT_NE(text.find("damaged: "), std::string::npos) << text;
  EXPECT_NE(table(checkpoint(2), false).find("damaged: "), std::string::npos);
}

TEST_F(Inspect, RefusesAFolderWithoutCheckpoints) {
  const TemporaryFolder empty;
  for (const fs::path& folder : {empty.path(), empty.path() / "missing"}) {
    std::ostringstream out;
    const std::string error = error_of([&] { inspect(folder, false, out); });
    EXPECT_TRUE(error.starts_with(folder.string() + ": holds no checkpoint")) << error;
  }
}

TEST_F(Inspect, ResolvesADirectoryToItsNewestWholeCheckpoint) {
  std::ostringstream out;
  EXPECT_EQ(resolve_checkpoint(checkpoint(1), out), checkpoint(1));
  EXPECT_EQ(resolve_checkpoint(path(), out), checkpoint(2));
  EXPECT_EQ(out.str(), "");
  fs::remove(checkpoint(2) / "rank-00003.safetensors");
  EXPECT_EQ(resolve_checkpoint(path(), out), checkpoint(1));
  EXPECT_TRUE(out.str().starts_with("passed over: " + checkpoint(2).string())) << out.str();
  EXPECT_NE(error_of([&] { resolve_checkpoint(checkpoint(2), out); }), "");
  fs::remove(checkpoint(1) / "manifest.json");
  EXPECT_NE(error_of([&] { resolve_checkpoint(path(), out); }).find("none of its checkpoints"),
            std::string::npos);
}

}  // namespace
}  // namespace cleave::test
