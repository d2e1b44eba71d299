// Which device a run computes on, and how it is refused. No GPU is needed: none is visible here.
#include "core/device.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "cleave/error.h"

namespace cleave {
namespace {

PlannedBackend backend(bool on_cpu, bool on_cuda) {
  PlannedBackend planned{"wire", {"run.toml:3:1"}, {}};
  if (on_cpu) planned.capabilities.dtypes[CLEAVE_CPU][CLEAVE_ALL_REDUCE] = 1;
  if (on_cuda) planned.capabilities.dtypes[CLEAVE_CUDA][CLEAVE_ALL_REDUCE] = 1;
  return planned;
}

RunConfig config_with(const std::string& device) {
  RunConfig config{};
  config.file = "run.toml";
  config.train.device = device;
  return config;
}

class DeviceTest : public testing::Test {
 protected:
  DeviceTest() { setenv("CUDA_VISIBLE_DEVICES", "-1", 1); }
  ~DeviceTest() override { unsetenv("CUDA_VISIBLE_DEVICES"); }
};

std::string refusal(const std::string& device, const PlannedBackend& planned) {
  RunConfig config = config_with(device);
  try {
    open_device(config, planned, {});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_F(DeviceTest, PlanFollowsTheKeyAndThenTheBackend) {
  EXPECT_EQ(planned_device(config_with("cpu"), backend(false, true)), at::kCPU);
  EXPECT_EQ(planned_device(config_with("cuda"), backend(true, false)), at::kCUDA);
  EXPECT_EQ(planned_device(config_with("auto"), backend(true, true)), at::kCPU);
  EXPECT_EQ(planned_device(config_with("auto"), backend(false, true)), at::kCUDA);
}

TEST_F(DeviceTest, AutoIsTheCpuWithoutAGpu) {
  for (const bool on_cuda : {false, true}) {
    RunConfig config = config_with("auto");
    EXPECT_EQ(open_device(config, backend(true, on_cuda), {}), at::Device(at::kCPU));
    EXPECT_EQ(config.train.device, "cpu");
  }
}

TEST_F(DeviceTest, CudaWithoutAGpuIsRefusedWithTheReason) {
  const std::string text = refusal("cuda", backend(true, true));
  EXPECT_NE(text.find(" = \"cuda\", but no GPU can be used here: "), std::string::npos) << text;
  EXPECT_NE(text.find("use device = \"cpu\""), std::string::npos) << text;
}

TEST_F(DeviceTest, BackendThatNeedsAGpuIsRefusedWithoutOne) {
  const std::string text = refusal("auto", backend(false, true));
  EXPECT_NE(text.find("run.toml:3:1: communication wire moves GPU memory only"), std::string::npos)
      << text;
  EXPECT_NE(text.find("backend = \"mpi\""), std::string::npos) << text;
}

}  // namespace
}  // namespace cleave
