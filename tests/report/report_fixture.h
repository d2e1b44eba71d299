// Records and a scratch folder for the tests of reports.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "report/step_record.h"

namespace cleave {

inline StepRecord make_record(int64_t step) {
  StepRecord record{};
  record.step = step;
  record.loss = 4.5;
  record.grad_norm = 1.25;
  record.lr = 1e-3;
  record.valid_tokens = 2048;
  record.step_ms = 100;
  record.tokens_per_s = 20480;
  record.exposed_communication_ms = 10;
  record.data_ms = 5;
  record.peak_memory_mib = {100, 80};
  record.memory_mib = {{"parameters", {40, 40}}, {"activations", {70, 50}}};
  record.resident_mib = {300, 310};
  record.wire_bytes = 1000;
  record.tflops = 0.25;
  return record;
}

inline RunFacts make_facts(int64_t steps) {
  return {steps, 2048, 2, 1000, 1000, {{"parameters", 41.5}, {"activations", 60}}, 96.25};
}

inline std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// An empty folder of the running test.
class ScratchFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("cleave_" + std::string(info->test_suite_name()) + "_" + info->name() + "_" +
               std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

}  // namespace cleave
