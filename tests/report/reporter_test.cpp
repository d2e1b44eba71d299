#include "report/reporter.h"

#include <algorithm>

#include "cleave/error.h"
#include "report_fixture.h"

namespace cleave {
namespace {

using ReporterTest = ScratchFolder;

int64_t count_lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST_F(ReporterTest, ShowsFirstLastAndEveryNthStep) {
  std::ostringstream console;
  Reporter reporter({folder_ / "new" / "folder", 4, false, false}, make_facts(10), console);
  for (int64_t step = 1; step <= 10; ++step) reporter.step(make_record(step));
  std::istringstream lines(console.str());
  std::vector<std::string> shown;
  for (std::string line; std::getline(lines, line);) shown.push_back(line.substr(0, 12));
  EXPECT_EQ(shown, (std::vector<std::string>{"step:  1/10 ", "step:  4/10 ", "step:  8/10 ",
                                             "step: 10/10 "}));
  EXPECT_EQ(count_lines(read_file(folder_ / "new" / "folder" / "metrics.jsonl")), 10);
  EXPECT_EQ(console.str().find('\033'), std::string::npos);
}

TEST_F(ReporterTest, EstimatesTheTimeLeftFromTheStepsAfterTheFirst) {
  std::ostringstream console;
  Reporter reporter({folder_, 2, false, false}, make_facts(1000), console);
  StepRecord record = make_record(1);
  record.step_ms = 60'000;
  reporter.step(record);
  console.str("");
  reporter.step(make_record(2));
  EXPECT_NE(console.str().find("ETA: 1m40s"), std::string::npos) << console.str();
}

TEST_F(ReporterTest, WritesEventsWhenAsked) {
  std::ostringstream console;
  Reporter without({folder_, 1, false, false}, make_facts(1), console);
  without.step(make_record(1));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  Reporter with({folder_, 1, true, false}, make_facts(1), console);
  with.step(make_record(1));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
}

TEST_F(ReporterTest, WritesAScalarForEachMemoryCategory) {
  std::ostringstream console;
  Reporter reporter({folder_, 1, true, false}, make_facts(1), console);
  reporter.step(make_record(1));
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    if (entry.path().filename().string().starts_with("events")) events = read_file(entry.path());
  for (const char* tag : {"memory_mib/parameters", "memory_mib/activations"})
    EXPECT_NE(events.find(tag), std::string::npos) << tag;
}

TEST_F(ReporterTest, EndsWithTheSummary) {
  std::ostringstream console;
  Reporter reporter({folder_, 1, false, false}, make_facts(2), console);
  reporter.step(make_record(1));
  reporter.step(make_record(2));
  console.str("");
  reporter.summary();
  EXPECT_TRUE(console.str().starts_with("summary\n  step time    p50 100.0 ms")) << console.str();
}

TEST_F(ReporterTest, NamesTheFolderThatCannotBeCreated) {
  std::ofstream(folder_ / "file") << "not a folder";
  std::ostringstream console;
  EXPECT_THROW(Reporter({folder_ / "file" / "x", 1, false, false}, make_facts(1), console),
               ConfigError);
}

}  // namespace
}  // namespace cleave
