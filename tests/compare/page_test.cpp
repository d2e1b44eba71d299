// The page and the JSON file of a result.
#include "compare/page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compare/result_json.h"
#include "result_fixture.h"

namespace cleave::test {
namespace {

CompareResult mixed_result() {
  CompareResult result =
      result_of({row("a", 1, {1000}), row("b", 2, {1500, 1700, 1600}), row("c<d", 2, {})});
  result.rows[2].status = RowStatus::failed;
  result.rows[2].reason = "expected <name> & got \"\x1b[0m\xff\"\nsecond line";
  result.rows[0].facts = {"model: qwen2, 3 M parameters"};
  return result;
}

TEST(ComparePage, HoldsEveryRowItsRangeAndItsReasonEscaped) {
  const std::string page = compare_page(mixed_result());
  EXPECT_NE(page.find("1,600 (1,500 to 1,700)"), std::string::npos) << page;
  EXPECT_NE(page.find("2 ranks, c&lt;d, ddp"), std::string::npos) << page;
  EXPECT_NE(page.find("expected &lt;name&gt; &amp; got &quot;\xef\xbf\xbd[0m\xef\xbf\xbd&quot;\n"
                      "second line"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("host compare: qwen2, 3 M parameters"), std::string::npos) << page;
  EXPECT_NE(page.find("Not complete"), std::string::npos) << page;
  CompareResult complete = mixed_result();
  complete.is_complete = true;
  EXPECT_EQ(compare_page(complete).find("Not complete"), std::string::npos);
}

TEST(ComparePage, NeedsNothingFromElsewhere) {
  const std::string page = compare_page(mixed_result());
  for (const char* link : {"src=", "href=", "url(", "@import", "<script"})
    EXPECT_EQ(page.find(link), std::string::npos) << link;
}

TEST(ComparePage, OfNothingButRefusalsIsAPageToo) {
  CompareResult result = result_of({row("a", 1, {}), row("b", 2, {})});
  for (RowResult& row : result.rows) {
    row.status = RowStatus::refused;
    row.reason = "no";
  }
  const std::string page = compare_page(result);
  EXPECT_EQ(page.find("nan"), std::string::npos) << page;
  EXPECT_NE(page.find("2 refused"), std::string::npos) << page;
}

TEST(CompareJson, HoldsTheRawFiguresOfEachRepetition) {
  const auto json = nlohmann::json::parse(compare_json(mixed_result()));
  EXPECT_FALSE(json.at("complete"));
  ASSERT_EQ(json.at("rows").size(), 3u);
  const auto& row = json.at("rows")[1];
  EXPECT_EQ(row.at("status"), "done");
  EXPECT_EQ(row.at("speed_up"), 1.6);
  EXPECT_EQ(row.at("tokens_per_s").at("low"), 1500);
  ASSERT_EQ(row.at("repetitions").size(), 3u);
  EXPECT_EQ(row.at("repetitions")[1].at("tokens_per_s").size(), 4u);
  EXPECT_EQ(row.at("repetitions")[1].at("peak_memory_mib").size(), 2u);
  EXPECT_EQ(json.at("rows")[2].at("status"), "failed");
  EXPECT_FALSE(json.at("rows")[2].contains("tokens_per_s"));
}

}  // namespace
}  // namespace cleave::test
