// docs/reference.md is what the program would print.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <sstream>

#include "config/describe.h"

namespace cleave {
namespace {

/// The first line of `page` that is not the same in `other`.
std::string first_difference(const std::string& page, const std::string& other) {
  std::istringstream lines(page), other_lines(other);
  std::string line, other_line;
  while (std::getline(lines, line))
    if (!std::getline(other_lines, other_line) || line != other_line) return line;
  return "";
}

TEST(ReferencePage, IsUpToDate) {
  unsetenv("CLEAVE_PLUGIN_PATH");  // the plugins of this tree alone
  std::ifstream file(CLEAVE_REFERENCE_PAGE);
  std::ostringstream committed;
  committed << file.rdbuf();
  const std::string page = reference_page(probe_all_plugins());
  EXPECT_TRUE(committed.str() == page)
      << "docs/reference.md is stale; write it anew: host describe --markdown > docs/reference.md\n"
      << "  it has      " << first_difference(committed.str(), page) << "\n  should have "
      << first_difference(page, committed.str());
}

}  // namespace
}  // namespace cleave
