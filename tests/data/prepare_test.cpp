#include "data/prepare.h"

#include <sstream>

#include "data/indexed_tokens.h"
#include "data_fixture.h"

namespace cleave::test {
namespace {

class PrepareTest : public DataTest {
 protected:
  /// Prepares texts as files in-0, in-1, ...; returns what was printed.
  std::string run(const std::vector<std::string>& texts, const std::string& separator) {
    PrepareRequest request{.inputs = {}, .output = path("out"), .document_separator = separator};
    for (const std::string& text : texts) {
      request.inputs.push_back(path("in-" + std::to_string(request.inputs.size())));
      write_file(request.inputs.back(), text);
    }
    std::ostringstream out;
    prepare(request, out);
    return out.str();
  }

  /// The documents of the pair that was written.
  std::vector<std::string> documents() const {
    const std::string bin = read_file(path("out.bin"));
    const IndexFile index(path("out.idx"));
    std::vector<std::string> result;
    for (int64_t i = 0; i < index.num_sequences(); ++i) {
      result.push_back(bin.substr(index.pointer(i), index.length(i)));
    }
    return result;
  }

  std::string error(const std::vector<std::filesystem::path>& inputs,
                    const std::filesystem::path& output, const std::string& separator = "") {
    std::ostringstream out;
    const std::string text = config_error([&] { prepare({inputs, output, separator}, out); });
    EXPECT_FALSE(std::filesystem::exists(output.string() + ".bin"));
    EXPECT_FALSE(std::filesystem::exists(output.string() + ".bin.tmp"));
    EXPECT_FALSE(std::filesystem::exists(output.string() + ".idx.tmp"));
    return text;
  }
};

using Texts = std::vector<std::string>;

TEST_F(PrepareTest, EachFileIsADocument) {
  const std::string summary = run({"first\n", "the second"}, "");
  EXPECT_EQ(documents(), (Texts{"first\n", "the second"}));
  EXPECT_TRUE(holds(summary, {"documents 2, tokens 16 ", "bytes read 16, ", " s; wrote",
                              "data.path = \"" + path("out").string() + "\""}));
  const auto tokens = open_tokens(path("out"));
  EXPECT_EQ(tokens->largest_possible_token(), 255);
  EXPECT_EQ(read_tokens(*tokens, 0, 2), (std::vector<int64_t>{'f', 'i'}));
}

TEST_F(PrepareTest, SeparatorLinesEndDocumentsAndAreLeftOut) {
  run({"a\nb\n--\nc\n--\n", "--\nd\n--\n--\ne\n--"}, "--");
  EXPECT_EQ(documents(), (Texts{"a\nb\n", "c\n", "", "d\n", "", "e\n"}));
}

TEST_F(PrepareTest, OnlyWholeLinesAreSeparators) {
  run({"-\n---\n --\n-- \nx--\n\n\r\n--x\n--\r\nlast\r\n-"}, "--");
  EXPECT_EQ(documents(), (Texts{"-\n---\n --\n-- \nx--\n\n\r\n--x\n", "last\r\n-"}));
  run({"--\rx\n--\r\r\n--\r"}, "--");
  EXPECT_EQ(documents(), (Texts{"--\rx\n--\r\r\n"}));
}

TEST_F(PrepareTest, SeparatorIsFoundAcrossBlocks) {
  for (const size_t before : {(1u << 20) - 5, (1u << 20) - 3, (1u << 20) - 1, 1u << 20}) {
    const std::string text = std::string(before - 1, 'x') + "\n";
    run({text + "<end>\ny"}, "<end>");
    EXPECT_TRUE(documents() == (Texts{text, "y"})) << before;
  }
}

TEST_F(PrepareTest, KeepsEveryByte) {
  std::string text;
  for (uint32_t i = 0; i < 3'000'000; ++i) text += static_cast<char>(i * i >> 3);
  run({text}, "separator");
  EXPECT_TRUE(read_file(path("out.bin")) == text);
}

TEST_F(PrepareTest, ReplacesAnOlderPair) {
  run({"old and long"}, "");
  run({"new"}, "");
  EXPECT_EQ(documents(), Texts{"new"});
  EXPECT_FALSE(std::filesystem::exists(path("out.bin.tmp")));
  EXPECT_FALSE(std::filesystem::exists(path("out.idx.tmp")));
}

TEST_F(PrepareTest, RefusesInputsThatGiveNoTokens) {
  EXPECT_TRUE(holds(error({}, path("out")), {"no input file"}));
  EXPECT_TRUE(holds(error({path("none")}, path("out")),
                    {path("none").string(), "there is no such input file"}));
  write_file(path("empty"), "");
  EXPECT_TRUE(holds(error({path("empty")}, path("out")), {path("empty").string(), "is empty"}));
  std::filesystem::create_directory(path("folder"));
  EXPECT_TRUE(holds(error({path("folder")}, path("out")), {path("folder").string(), "a folder"}));
  write_file(path("separators"), "--\n--\n");
  EXPECT_TRUE(
      holds(error({path("separators")}, path("out"), "--"), {"no tokens", "separator lines only"}));
  EXPECT_TRUE(holds(error({path("separators")}, path("out"), "-\n-"), {"line end"}));
}

TEST_F(PrepareTest, RefusesOutputsThatCannotBeWritten) {
  write_file(path("in"), "text");
  EXPECT_TRUE(holds(error({path("in")}, path("none/out")),
                    {path("none").string() + " does not exist", "create it"}));
  EXPECT_TRUE(holds(error({path("in")}, path("in/out")), {"does not exist"}));
  EXPECT_TRUE(holds(error({path("in")}, "/proc/self/out"), {"/proc/self/out.bin", "created"}));
  EXPECT_TRUE(holds(error({path("in")}, path("out.bin")), {"write \"" + path("out").string()}));
  std::filesystem::create_directory(path("folder"));
  EXPECT_TRUE(holds(error({path("in")}, path("folder")), {"folder/corpus"}));
}

TEST_F(PrepareTest, RefusesToOverwriteItsInput) {
  write_file(path("out.idx"), "text");
  EXPECT_TRUE(holds(error({path("out.idx")}, path("out")), {"input and the output"}));
  EXPECT_EQ(read_file(path("out.idx")), "text");
}

}  // namespace
}  // namespace cleave::test
