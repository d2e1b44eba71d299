#include "report/console_line.h"

#include <iostream>

#include "report_fixture.h"

namespace cleave {
namespace {

TEST(ConsoleLine, ShowsTorchtitansFieldsThenProgress) {
  EXPECT_EQ(console_line(make_record(50), 200, 75),
            "step:  50/200 ( 25%)  loss:  4.50000  grad_norm:  1.2500  memory: 100.0 MiB  "
            "tps:  20,480  tflops:   0.25  ETA: 1m15s");
}

TEST(ConsoleLine, ShowsMfuWhenItIsKnown) {
  StepRecord record = make_record(1);
  record.mfu = 0.412;
  EXPECT_NE(console_line(record, 10, 0).find("  mfu: 41.2%  ETA: 0s"), std::string::npos);
}

TEST(ConsoleLine, ShowsHoursOfALongRun) {
  const std::string line = console_line(make_record(1), 10, 3 * 3600 + 7 * 60);
  EXPECT_TRUE(line.ends_with("ETA: 3h07m")) << line;
}

TEST(Format, GroupsDigitsByThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
}

TEST(Format, ChoosesTheUnitOfMemory) {
  EXPECT_EQ(format_mib(812.34), "812.3 MiB");
  EXPECT_EQ(format_mib(1536), "1.50 GiB");
}

}  // namespace
}  // namespace cleave
