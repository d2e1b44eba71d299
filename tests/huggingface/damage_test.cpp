// Every way to spoil a folder of two files: the program leaves with 2 before step 1, and names the
// file and the tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "model_fixture.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

constexpr char kFirst[] = "model-00001-of-00002.safetensors";
constexpr char kSecond[] = "model-00002-of-00002.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kUp[] = "model.layers.1.mlp.up_proj.weight";  // (20, 12)

void edit_json(const fs::path& file, const std::function<void(Json&)>& edit) {
  Json json = Json::parse(read_text(file));
  edit(json);
  write_text(file, json.dump());
}

/// Rewrites the header; the data stays.
void edit_header(const fs::path& file, const std::function<void(Json&)>& edit) {
  const std::string content = read_text(file);
  uint64_t length;
  std::memcpy(&length, content.data(), sizeof(length));
  Json header = Json::parse(content.substr(8, length));
  const std::string data = content.substr(8 + length);
  edit(header);
  const std::string text = header.dump();
  length = text.size();
  write_text(file, std::string(reinterpret_cast<const char*>(&length), 8) + text + data);
}

fs::path file_with(const fs::path& folder, const std::string& tensor) {
  return folder / Json::parse(read_text(folder / kIndex))["weight_map"][tensor].get<std::string>();
}

struct Damage {
  std::string name;
  std::function<void(const fs::path& folder)> apply;
  std::vector<std::string> expected;
};

void PrintTo(const Damage& damage, std::ostream* out) {
  *out << damage.name;
}

void edit_up(const fs::path& folder, const std::function<void(Json&)>& edit) {
  edit_header(file_with(folder, kUp), [&](Json& header) { edit(header[kUp]); });
}

void cut(const fs::path& file, size_t bytes) {
  std::string content = read_text(file);
  content.resize(content.size() - bytes);
  write_text(file, content);
}

std::vector<Damage> damage_of_the_index() {
  return {
      {"MissingShard",
       [](const fs::path& f) { fs::remove(f / kSecond); },
       {kIndex, kSecond, "which is not there"}},
      {"IndexNamesATensorThatIsInNoFile",
       [](const fs::path& f) {
         edit_json(f / kIndex, [](Json& index) { index["weight_map"]["ghost.weight"] = kFirst; });
       },
       {kIndex, "\"ghost.weight\"", kFirst}},
      {"IndexNamesTheOtherFile",
       [](const fs::path& f) {
         const std::string other = file_with(f, kUp).filename() == kFirst ? kSecond : kFirst;
         edit_json(f / kIndex, [&](Json& index) { index["weight_map"][kUp] = other; });
       },
       {kUp, "said to lie in another file", kIndex}},
      {"IndexLacksATensor",
       [](const fs::path& f) {
         edit_json(f / kIndex, [](Json& index) { index["weight_map"].erase(kUp); });
       },
       {kUp, "is not in the index"}},
      {"IndexLeavesTheFolder",
       [](const fs::path& f) {
         edit_json(f / kIndex, [](Json& index) { index["weight_map"][kUp] = "../x"; });
       },
       {kIndex, kUp, "\"../x\", which is not a file name"}},
      {"IndexWithoutMap",
       [](const fs::path& f) { write_text(f / kIndex, "{}"); },
       {kIndex, "has no weight_map"}},
      {"IndexNotJson", [](const fs::path& f) { cut(f / kIndex, 3); }, {kIndex, "not valid JSON"}},
      {"IndexWithAKeyTwice",
       [](const fs::path& f) { write_text(f / kIndex, R"({"weight_map":{"a":"x","a":"y"}})"); },
       {kIndex, "key \"a\" stands there twice"}}};
}

std::vector<Damage> damage_of_the_files() {
  return {
      {"HeaderLengthOf2To63",
       [](const fs::path& f) {
         std::string content = read_text(f / kFirst);
         content.replace(0, 8, std::string("\0\0\0\0\0\0\0\x80", 8));
         write_text(f / kFirst, content);
       },
       {kFirst, "header length 9223372036854775808 is out of range"}},
      {"OverlappingOffsets",
       [](const fs::path& f) {
         edit_up(f, [](Json& up) {
           for (Json& offset : up["data_offsets"]) offset = offset.get<int64_t>() - 8;
         });
       },
       {kUp, "overlap"}},
      {"OffsetsBehindTheEnd",
       [](const fs::path& f) {
         edit_up(f, [](Json& up) {
           for (Json& offset : up["data_offsets"]) offset = offset.get<int64_t>() + (1 << 30);
         });
       },
       {kUp, "ends at byte"}},
      {"TenBytesCut", [](const fs::path& f) { cut(f / kSecond, 10); }, {kSecond, "truncated"}},
      {"EmptyFile", [](const fs::path& f) { write_text(f / kFirst, ""); }, {kFirst, "is empty"}}};
}

std::vector<Damage> tensors_of_another_model() {
  return {
      {"UnknownTensor",
       [](const fs::path& f) {
         edit_header(file_with(f, kUp), [](Json& header) {
           header["model.layers.7.mlp.up_proj.weight"] = header[kUp];
           header.erase(kUp);
         });
         edit_json(f / kIndex, [](Json& index) {
           Json& map = index["weight_map"];
           map["model.layers.7.mlp.up_proj.weight"] = map[kUp];
         });
       },
       {kUp, "is not in"}},
      {"ExtraTensor",
       [](const fs::path& f) {
         const std::string name = file_with(f, kUp).filename();
         edit_header(f / name, [](Json& header) {
           header["score.weight"] = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
         });
         edit_json(f / kIndex, [&](Json& index) { index["weight_map"]["score.weight"] = name; });
       },
       {"\"score.weight\" is no part of the model"}},
      {"TransposedShape",
       [](const fs::path& f) { edit_up(f, [](Json& up) {
                                 up["shape"] = {12, 20};
                               }); },
       {kUp, "has shape [12,20], the config makes it [20,12]"}},
      {"Float16AmongBfloat16",
       [](const fs::path& f) { edit_up(f, [](Json& up) { up["dtype"] = "F16"; }); },
       {kUp, "F16", "correct the one that is wrong"}},
      {"IntegersOfTheSameSize",
       [](const fs::path& f) { edit_up(f, [](Json& up) { up["dtype"] = "I16"; }); },
       {kUp, "is I16; save the model in F32, BF16 or F16"}}};
}

std::vector<Damage> config_of_another_model() {
  return {{"ConfigOfAnotherModel",
           [](const fs::path& f) {
             edit_json(f / "config.json", [](Json& config) { config["num_hidden_layers"] = 4; });
           },
           {kIndex, "\"model.layers.3.", "is missing"}},
          {"FewerLayersThanTheFiles",
           [](const fs::path& f) {
             edit_json(f / "config.json", [](Json& config) { config["num_hidden_layers"] = 2; });
           },
           {"\"model.layers.2.", "is no part of the model"}},
          {"HeadThatShouldBeTied",
           [](const fs::path& f) {
             edit_json(f / "config.json",
                       [](Json& config) { config["tie_word_embeddings"] = true; });
           },
           {"\"lm_head.weight\" differs from model.embed_tokens.weight at element 0"}},
          {"Llama",
           [](const fs::path& f) {
             edit_json(f / "config.json", [](Json& config) { config["model_type"] = "llama"; });
           },
           {"_proj.bias\" is no part of the model"}},
          {"RotaryScaling",
           [](const fs::path& f) {
             edit_json(f / "config.json", [](Json& config) {
               config["rope_scaling"] = {{"rope_type", "yarn"}};
             });
           },
           {"config.json: rope_scaling = {\"rope_type\":\"yarn\"} is not supported"}}};
}

std::vector<Damage> all_damage() {
  std::vector<Damage> all;
  for (auto* list : {&damage_of_the_index, &damage_of_the_files, &tensors_of_another_model,
                     &config_of_another_model})
    for (const Damage& damage : list()) all.push_back(damage);
  return all;
}

class DamagedFolder : public testing::TestWithParam<Damage> {};

INSTANTIATE_TEST_SUITE_P(All, DamagedFolder, testing::ValuesIn(all_damage()),
                         [](const auto& info) { return info.param.name; });

TEST_P(DamagedFolder, IsRefusedBeforeStepOne) {
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "model";
  ModelFolder{tiny_model("qwen2"), ElementType::bfloat16, 2}.write(model);
  const auto run = write_run(folder, "export = \"" + (folder.path() / "out").string() + "\"");
  ASSERT_EQ(run_host({"check", "--config", run.string()}).code, 0);
  GetParam().apply(model);
  for (const std::string verb : {"train", "check"}) {
    const Outcome outcome = run_host({verb, "--config", run.string()});
    EXPECT_EQ(outcome.code, 2) << outcome.output << outcome.error;
    EXPECT_NE(outcome.error.find(model.string()), std::string::npos) << outcome.error;
    for (const std::string& text : GetParam().expected)
      EXPECT_NE(outcome.error.find(text), std::string::npos) << outcome.error << "wanted " << text;
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
  }
  EXPECT_FALSE(fs::exists(folder.path() / "metrics/metrics.jsonl"));
  EXPECT_FALSE(fs::exists(folder.path() / "out"));
}

}  // namespace
}  // namespace cleave::test
