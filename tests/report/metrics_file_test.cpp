#include "report/metrics_file.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "cleave/error.h"
#include "report_fixture.h"

namespace cleave {
namespace {

using nlohmann::json;
using MetricsFileTest = ScratchFolder;

TEST(MetricsLine, HasTheAgreedKeysInTheirOrder) {
  const auto object = nlohmann::ordered_json::parse(to_json(make_record(1)));
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  EXPECT_EQ(keys, (std::vector<std::string>{"step", "loss", "grad_norm", "lr", "valid_tokens",
                                            "step_ms", "tokens_per_s", "exposed_communication_ms",
                                            "data_ms", "peak_memory_mib", "memory_mib",
                                            "resident_mib", "wire_bytes", "tflops"}));
  EXPECT_EQ(object["peak_memory_mib"], json({100.0, 80.0}));
  EXPECT_EQ(object["memory_mib"]["parameters"], json({40.0, 40.0}));
  EXPECT_EQ(object["memory_mib"]["activations"], json({70.0, 50.0}));
  EXPECT_EQ(object["valid_tokens"], 2048);
}

TEST(MetricsLine, HasMfuAndBubbleOnlyWhenTheyAreKnown) {
  StepRecord record = make_record(1);
  record.mfu = 0.5;
  record.bubble_fraction = 0.25;
  const json object = json::parse(to_json(record));
  EXPECT_EQ(object["mfu"], 0.5);
  EXPECT_EQ(object["bubble_fraction"], 0.25);
}

TEST(MetricsLine, WritesSeventeenSignificantDigits) {
  StepRecord record = make_record(1);
  record.loss = 0.1;
  EXPECT_NE(to_json(record).find("\"loss\":0.10000000000000001,"), std::string::npos);
}

TEST(MetricsLine, ReadsBackToTheSameBits) {
  for (double value : {1.0 / 3, 4.9406564584124654e-324, 1.7976931348623157e308, -2.5e-9, 0.0}) {
    StepRecord record = make_record(1);
    record.grad_norm = value;
    EXPECT_EQ(json::parse(to_json(record))["grad_norm"].get<double>(), value);
  }
}

TEST(MetricsLine, WritesNullForWhatJsonDoesNotKnow) {
  StepRecord record = make_record(1);
  record.loss = std::nan("");
  record.grad_norm = std::numeric_limits<double>::infinity();
  record.peak_memory_mib = {-std::numeric_limits<double>::infinity()};
  const json object = json::parse(to_json(record));
  EXPECT_TRUE(object["loss"].is_null());
  EXPECT_TRUE(object["grad_norm"].is_null());
  EXPECT_TRUE(object["peak_memory_mib"][0].is_null());
}

TEST_F(MetricsFileTest, ShowsEachLineBeforeTheFileIsClosed) {
  MetricsFile file(folder_ / "metrics.jsonl");
  file.write(make_record(1));
  file.write(make_record(2));
  EXPECT_EQ(read_file(folder_ / "metrics.jsonl"),
            to_json(make_record(1)) + "\n" + to_json(make_record(2)) + "\n");
}

TEST_F(MetricsFileTest, ReplacesTheFileOfAnEarlierRun) {
  MetricsFile(folder_ / "metrics.jsonl").write(make_record(1));
  MetricsFile(folder_ / "metrics.jsonl").write(make_record(7));
  EXPECT_EQ(read_file(folder_ / "metrics.jsonl"), to_json(make_record(7)) + "\n");
}

TEST_F(MetricsFileTest, NamesTheFileThatCannotBeCreated) {
  try {
    MetricsFile file(folder_ / "missing" / "metrics.jsonl");
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("missing/metrics.jsonl: can't be created: No such"),
              std::string::npos)
        << error.what();
  }
}

TEST(MetricsFile, FailsWhenTheDiskIsFull) {
  MetricsFile file("/dev/full");
  EXPECT_THROW(file.write(make_record(1)), RuntimeError);
}

}  // namespace
}  // namespace cleave
