// tests/host/errors/*.toml: each begins with `# expect: <part of the message>`.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "cleave/error.h"
#include "config/run_config.h"

namespace cleave {
namespace {

std::vector<std::filesystem::path> error_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(CLEAVE_ERROR_FILES))
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string name_of(const testing::TestParamInfo<std::filesystem::path>& info) {
  return info.param.stem().string();
}

class ErrorFile : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(ErrorFile, GivesTheExpectedMessage) {
  std::ifstream stream(GetParam());
  std::string first;
  std::getline(stream, first);
  const std::string mark = "# expect: ";
  ASSERT_TRUE(first.starts_with(mark)) << GetParam();
  try {
    load_run_config(GetParam(), {});
    FAIL() << GetParam() << " loads";
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find(first.substr(mark.size())), std::string::npos) << what;
    EXPECT_TRUE(what.starts_with(GetParam().string() + ":")) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    EXPECT_NE(what.find("; "), std::string::npos) << "nothing to do: " << what;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, ErrorFile, testing::ValuesIn(error_files()), name_of);

}  // namespace
}  // namespace cleave
