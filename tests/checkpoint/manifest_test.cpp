#include "checkpoint/manifest.h"

#include <gtest/gtest.h>

#include "checkpoint/checksum.h"
#include "checkpoint_fixture.h"
#include "cleave/error.h"

namespace cleave::test {
namespace {

/// A manifest with files and slices, as JSON.
Json stored() {
  const TemporaryFolder folder;
  return Json::parse(to_text(write_shards(folder.path(), row_pieces(2), 3)));
}

/// With the checksum that a program which meant it would have written.
std::string sealed(Json root) {
  root.erase("checksum");
  root["checksum"] = to_hex(checksum_of(root.dump(1)));
  return root.dump(1);
}

std::string refusal(const std::string& text) {
  return error_of([&] { parse_manifest("m.json", text); });
}

void expect_refused(const Json& root, const std::string& expected) {
  const std::string error = refusal(sealed(root));
  EXPECT_TRUE(error.starts_with("m.json: ")) << error;
  EXPECT_NE(error.find(expected), std::string::npos) << error << "\nwanted " << expected;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

TEST(Manifest, ReadsWhatItWrites) {
  const TemporaryFolder folder;
  Manifest manifest = write_shards(folder.path(), cut_three_ways(), 3);
  manifest.optimizer["lr"] = 0.1 + 0.2;
  manifest.model["rope_theta"] = 1e6;
  manifest.config = "path = \"a\\nb\"\n";
  const std::string text = to_text(manifest);
  const Manifest parsed = parse_manifest("m.json", text);
  EXPECT_EQ(to_text(parsed), text);
  EXPECT_EQ(parsed.data, manifest.data);
  EXPECT_EQ(parsed.weight_seed, UINT64_MAX);
  EXPECT_EQ(parsed.optimizer["lr"].get<double>(), 0.1 + 0.2);
  EXPECT_EQ(parsed.model.dump(), manifest.model.dump());
  EXPECT_EQ(parsed.config, manifest.config);
  EXPECT_EQ(parsed.find("model.norm.weight")->shape, (std::vector<int64_t>{7}));
  EXPECT_EQ(parsed.find("model"), nullptr);
}

TEST(Manifest, SaysWhichTensorsAreWeights) {
  EXPECT_TRUE(is_weight("model.norm.weight"));
  EXPECT_FALSE(is_weight("exp_avg.model.norm.weight"));
  EXPECT_FALSE(is_weight("exp_avg_sq.model.norm.weight"));
}

TEST(Manifest, OfANewerVersionSaysWhichIsNeeded) {
  Json root = stored();
  root["format_version"] = 2;
  root["invented_later"] = true;
  EXPECT_EQ(refusal(root.dump()),
            "m.json: was written by a newer version (format 2, this program "
            "reads 1); use that version");
}

TEST(Manifest, RefusesWhatIsNoManifest) {
  for (const char* text : {"", "{", "[]", "null", "\"a\"", "{}", "{\"format_version\": \"1\"}",
                           "{\"format_version\": 0}", "{\"metadata\": {}, \"weight_map\": {}}"}) {
    const std::string error = refusal(text);
    EXPECT_TRUE(error.starts_with("m.json: ")) << text << " -> " << error;
  }
  EXPECT_NE(refusal(std::string(1 << 20, '[')), "");
  EXPECT_NE(refusal("{\"format_version\": 1, \"a\": " + std::string(1 << 20, '[')), "");
  std::string deep = "{\"format_version\": 1, \"checksum\": \"0\", \"a\": ";
  for (int i = 0; i < 100'000; ++i) deep += "[";
  deep += std::string(100'000, ']') + "}";
  EXPECT_NE(refusal(deep).find("nested"), std::string::npos);
}

TEST(Manifest, RefusesTextThatIsNotAsItWasWritten) {
  Json root = stored();
  root["tokens"] = 5;
  EXPECT_NE(refusal(root.dump(1)).find("is not as it was written"), std::string::npos);
  root = stored();
  root.erase("checksum");
  EXPECT_NE(refusal(root.dump(1)).find("has no checksum"), std::string::npos);
}

/// Calls `check` with every object of the manifest whose keys are fixed, and a way to change it.
using Change = std::function<void(Json& object)>;
void for_each_object(
    const std::function<void(const std::string&, std::function<Json(Change)>)>& check) {
  for (const char* pointer : {"", "/data", "/files/1", "/tensors/0", "/tensors/0/slices/0"})
    check(pointer, [pointer](const Change& change) {
      Json root = stored();
      change(root[Json::json_pointer(pointer)]);
      return root;
    });
}

TEST(Manifest, RefusesAMissingKeyAnUnknownOneAndAWrongType) {
  for_each_object([](const std::string& place, const std::function<Json(Change)>& changed) {
    const Json object = stored()[Json::json_pointer(place)];
    for (const auto& [key, value] : object.items()) {
      if (key == "checksum" && place.empty()) continue;
      const std::string name = key;
      EXPECT_NE(refusal(sealed(changed([&](Json& o) { o.erase(name); }))), "") << place << name;
      const Json wrong = value.is_number() ? Json("1") : Json(1);
      EXPECT_NE(refusal(sealed(changed([&](Json& o) { o[name] = wrong; }))), "") << place << name;
      EXPECT_NE(refusal(sealed(changed([&](Json& o) { o[name] = nullptr; }))), "") << place << name;
      if (!value.is_number() || name == "ignore_token") continue;
      for (const Json& number : {Json(-1), Json(0.5), Json(1e300)})
        EXPECT_NE(refusal(sealed(changed([&](Json& o) { o[name] = number; }))), "") << name;
    }
    expect_refused(changed([](Json& o) { o["strange"] = 1; }), "unknown key \"strange\"");
  });
}

TEST(Manifest, RefusesFileNamesThatLeadElsewhere) {
  for (const char* name : {"", ".", "..", "../a", "a/b", "/etc/passwd", ".hidden", "a\n"}) {
    Json root = stored();
    root["files"][0]["name"] = name;
    expect_refused(root, "is not a file's name");
  }
}

TEST(Manifest, RefusesTwoTensorsOrFilesOfOneName) {
  Json root = stored();
  root["tensors"].push_back(root["tensors"][0]);
  expect_refused(root, "is there twice");
  root = stored();
  root["files"].push_back(root["files"][0]);
  expect_refused(root, "is there twice");
}

TEST(Manifest, RefusesSizesWhoseProductIsTooLarge) {
  Json root = stored();
  root["tensors"][0]["shape"] = {int64_t{1} << 40, int64_t{1} << 40};
  expect_refused(root, "2^63");
  root = stored();
  root["files"][0]["size_bytes"] = INT64_MAX;
  expect_refused(root, "2^63");
  root = stored();
  root["tensors"][0]["slices"][0]["offset_bytes"] = INT64_MAX;
  expect_refused(root, "out of range");
  root = stored();
  root["world_size"] = int64_t{1} << 40;
  expect_refused(root, "world_size");
}

// The first tensor is 13 x 7, in two slices: elements 0 to 42 and 42 to 91.
TEST(Manifest, RefusesSlicesThatAreNotTheTensorOnce) {
  const auto with_slice = [](const Change& change) {
    Json root = stored();
    change(root["tensors"][0]["slices"][0]);
    return root;
  };
  expect_refused(with_slice([](Json& s) { s["end"] = 41; }), "leave 1 of 91 elements out");
  expect_refused(with_slice([](Json& s) { s["end"] = 43; }), "more than 91 elements");
  expect_refused(with_slice([](Json& s) { s["begin"] = 1, s["end"] = 43; }), "overlap");
  expect_refused(with_slice([](Json& s) { s["end"] = 92; }), "lie outside of shape [13,7]");
  expect_refused(with_slice([](Json& s) { s["box_end"] = {14, 7}; }), "lie outside of shape");
  expect_refused(with_slice([](Json& s) { s["box_end"] = {13}; }), "lie outside of shape");
  expect_refused(with_slice([](Json& s) { s["begin"] = 42; }), "lie outside of shape");
  // another box with as many elements: rows 1 to 7 of all columns
  expect_refused(with_slice([](Json& s) { s["box_begin"] = {1, 0}; }), "overlap");
}

TEST(Manifest, RefusesSlicesThatAreNotTheFileOnce) {
  const auto with_slice = [](const Change& change) {
    Json root = stored();
    change(root["tensors"][0]["slices"][0]);
    return root;
  };
  expect_refused(with_slice([](Json& s) { s["file"] = "rank-00009.safetensors"; }),
                 "not in the list of files");
  expect_refused(with_slice([](Json& s) { s["file"] = "rank-00001.safetensors"; }),
                 "a slice begins");
  expect_refused(with_slice([](Json& s) { s["offset_bytes"] = 8; }), "a slice begins at byte 8");
  Json root = stored();
  root["files"][0]["size_bytes"] = root["files"][0]["size_bytes"].get<int64_t>() + 4;
  expect_refused(root, "its slices end at byte");
}

// Slices of thousands of ranks, cut in two ways, are compared without comparing all pairs.
TEST(Manifest, OfManyRanksIsReadInAMoment) {
  constexpr int64_t kRanks = 4096, kWidth = 64;
  Json root = stored();
  root["files"] = Json::array();
  Json slices = Json::array();
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const std::string name = message("rank-", rank, ".safetensors");
    root["files"].push_back({{"name", name},
                             {"size_bytes", 8 + 4 * kWidth},
                             {"header_bytes", 8},
                             {"header_checksum", to_hex(0)}});
    const int64_t half = rank % 2 * kWidth / 2, row = rank / 2 * 2;
    slices.push_back({{"box_begin", {0, half}},
                      {"box_end", {kRanks, half + kWidth / 2}},
                      {"begin", row * kWidth / 2},
                      {"end", (row + 2) * kWidth / 2},
                      {"file", name},
                      {"offset_bytes", 8},
                      {"checksum", to_hex(0)}});
  }
  const Json tensor = {
      {"name", "x"}, {"shape", {kRanks, kWidth}}, {"dtype", "float32"}, {"slices", slices}};
  root["tensors"] = Json::array({tensor});
  EXPECT_EQ(parse_manifest("m.json", sealed(root)).tensors[0].slices.size(), 4096u);
  slices.back()["begin"] = slices.back()["begin"].get<int64_t>() - 1;
  slices.back()["end"] = slices.back()["end"].get<int64_t>() - 1;
  root["tensors"][0]["slices"] = slices;
  expect_refused(root, "overlap");
}

}  // namespace
}  // namespace cleave::test
