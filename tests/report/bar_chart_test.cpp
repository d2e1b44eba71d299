#include "report/bar_chart.h"

#include <gtest/gtest.h>

#include "report/markup.h"

namespace cleave {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

TEST(BarChart, DrawsBarsRangesAndNotes) {
  const std::string svg = draw_bars(
      "speed", {{"a & b", 10, 8, 12, "10"}, {"exact", 5, 5, 5, "5"}, {"none", 0, 0, 0, "refused"}});
  EXPECT_EQ(count(svg, "<rect"), 2u);
  EXPECT_EQ(count(svg, "<path"), 1u);  // a range of no width is none
  EXPECT_EQ(count(svg, "<text"), 6u);
  EXPECT_NE(svg.find("a &amp; b"), std::string::npos);
  EXPECT_NE(svg.find(">refused<"), std::string::npos);
}

TEST(BarChart, OfNothingIsEmpty) {
  EXPECT_EQ(count(draw_bars("speed", {}), "<rect"), 0u);
  EXPECT_EQ(draw_bars("speed", {{"x", 0, 0, 0, ""}}).find("nan"), std::string::npos);
}

TEST(Markup, EscapesWhatHasAMeaningAndReplacesWhatXmlCannotHold) {
  EXPECT_EQ(escape_markup("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escape_markup("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n\t"),
            "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n\t");
  const std::string unknown = "\xef\xbf\xbd";
  for (const std::string bad : {"\x1b", "\xff", "\xc3", "\xc0", "\x7f"})
    EXPECT_EQ(escape_markup("x" + bad), "x" + unknown) << bad;
  EXPECT_EQ(escape_markup("\xed\xa0\x80"), unknown + unknown + unknown);  // half of a pair
  EXPECT_EQ(escape_markup("\xe2\x82<"), unknown + unknown + "&lt;");
}

}  // namespace
}  // namespace cleave
