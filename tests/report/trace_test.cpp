#include "report/trace.h"

#include <nlohmann/json.hpp>
#include <thread>

#include "cleave/error.h"
#include "report_fixture.h"

namespace cleave {
namespace {

using nlohmann::json;
using std::chrono::microseconds;
using std::chrono::nanoseconds;
using TraceTest = ScratchFolder;

std::vector<json> events(const std::filesystem::path& file, const std::string& phase) {
  std::vector<json> result;
  const json trace = json::parse(read_file(file));
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) result.push_back(event);
  }
  return result;
}

TEST_F(TraceTest, WritesSpansInMicroseconds) {
  Trace trace(3);
  const Trace::Clock::time_point begin(microseconds(1000) + nanoseconds(500));
  trace.span("compute", "layers.0", begin, begin + microseconds(250));
  trace.write(folder_);
  const auto spans = events(folder_ / "trace.rank3.json", "X");
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0]["name"], "layers.0");
  EXPECT_EQ(spans[0]["pid"], 3);
  EXPECT_EQ(spans[0]["ts"], 1000.5);
  EXPECT_EQ(spans[0]["dur"], 250.0);
  EXPECT_FALSE(spans[0].contains("args"));
}

TEST_F(TraceTest, GivesEachTrackANamedRow) {
  Trace trace(0);
  trace.span("compute", "a", {}, {});
  trace.span("communication", "b", {}, {}, 4096);
  trace.span("compute", "c", {}, {});
  trace.write(folder_);
  std::map<int, std::string> rows;
  for (const json& event : events(folder_ / "trace.rank0.json", "M")) {
    if (event["name"] == "thread_name") rows[event["tid"]] = event["args"]["name"];
  }
  EXPECT_EQ(rows, (std::map<int, std::string>{{0, "compute"}, {1, "communication"}}));
  const auto spans = events(folder_ / "trace.rank0.json", "X");
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[1]["tid"], 1);
  EXPECT_EQ(spans[1]["args"]["bytes"], 4096);
  EXPECT_EQ(spans[2]["tid"], 0);
}

TEST_F(TraceTest, StaysValidWithoutSpansAndWithOddNames) {
  Trace empty(0);
  empty.write(folder_);
  EXPECT_TRUE(events(folder_ / "trace.rank0.json", "X").empty());

  Trace odd(1);
  odd.span("a \"track\"", "back\\slash \x01 \xff", {}, {});
  odd.write(folder_);
  EXPECT_EQ(events(folder_ / "trace.rank1.json", "X").size(), 1u);
}

TEST_F(TraceTest, KeepsTheSpansOfAllThreads) {
  Trace trace(0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 100; ++k) trace.span(std::to_string(i), "span", {}, {});
    });
  }
  for (std::thread& thread : threads) thread.join();
  trace.write(folder_);
  EXPECT_EQ(events(folder_ / "trace.rank0.json", "X").size(), 400u);
}

TEST_F(TraceTest, NamesTheFileThatCannotBeWritten) {
  std::ofstream(folder_ / "file") << "not a folder";
  EXPECT_THROW(Trace(0).write(folder_ / "file"), RuntimeError);
}

}  // namespace
}  // namespace cleave
