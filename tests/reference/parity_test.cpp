// Every layout trains the model that transformers trains in float64 (cases/, layouts.json).
#include "reference_case.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "support/tiny_run.h"

namespace cleave::test {
namespace {

struct Run {
  std::string reference;
  Layout layout;
  int64_t micro_batch_size;
};

#ifdef __SANITIZE_ADDRESS__
// Sanitizers look at the code, which differs with the layout, not at digits.
std::vector<Run> all_runs() {
  std::vector<Run> runs;
  for (const Layout& layout : layouts()) {
    const std::vector<std::string> cases = layout.cases.empty() ? case_names() : layout.cases;
    runs.push_back({cases[runs.size() % cases.size()], layout, layout.micro_batch_sizes.back()});
  }
  return runs;
}
#else
std::vector<Run> all_runs() {
  std::vector<Run> runs;
  for (const std::string& name : case_names())
    for (const Layout& layout : layouts()) {
      const auto& only = layout.cases;
      if (!only.empty() && std::find(only.begin(), only.end(), name) == only.end()) continue;
      for (const int64_t size : layout.micro_batch_sizes) runs.push_back({name, layout, size});
    }
  return runs;
}
#endif

// "qwen2_tied__ddp_on_2__micro_6"
std::string name_of(const testing::TestParamInfo<Run>& info) {
  const Run& run = info.param;
  std::string name =
      run.reference + "__" + run.layout.name + "__micro_" + std::to_string(run.micro_batch_size);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

void PrintTo(const Run& run, std::ostream* out) {
  *out << run.reference << ", " << run.layout.name << ", micro batch " << run.micro_batch_size;
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

std::string all_digits(double value) {
  std::ostringstream text;
  text.precision(17);
  text << value;
  return text.str();
}

class Parity : public testing::TestWithParam<Run> {
 protected:
  // Properties are what tools/verify-all reads from the JSON report.
  void SetUp() override {
    RecordProperty("case", GetParam().reference);
    RecordProperty("layout", GetParam().layout.name);
    RecordProperty("micro_batch_size", std::to_string(GetParam().micro_batch_size));
  }
  void record(const std::vector<Deviation>& deviations) {
    for (const Deviation& deviation : deviations)
      RecordProperty(deviation.what, all_digits(deviation.largest * deviation.tolerance));
  }
};
INSTANTIATE_TEST_SUITE_P(Reference, Parity, testing::ValuesIn(all_runs()), name_of);

TEST_P(Parity, TrainsTheModelOfTheReference) {
  const TemporaryFolder folder;
  const ReferenceCase reference = load_case(GetParam().reference);
  const RunConfig config =
      config_of(reference, GetParam().layout, GetParam().micro_batch_size, folder);
  const auto order = parameter_order(config);
  const auto ranks = run_ranks(config, GetParam().layout.ranks);
  for (const CapturedRun& rank : ranks) {
    ASSERT_EQ(names_of(rank.final_weights), names_of(reference.expected.final_weights));
    for (const auto& [name, weight] : reference.expected.initial_weights)
      EXPECT_TRUE(bitwise_equal(rank.initial_weights.at(name), weight))
          << name << " was not imported exactly";
    const Judgement judgement = judge(rank, reference, order);
    EXPECT_EQ(judgement.failure, "");
    if (&rank == &ranks.front()) record(judgement.deviations);
  }
}

// A gradient that is off by 1/1000, planted by a strategy.
TEST(Reference, NamesTheTensorWhoseGradientIsScaled) {
  const TemporaryFolder folder;
  const std::string name = "model.layers.2.self_attn.k_proj.bias";
  const ReferenceCase reference = load_case("qwen2-tied");
  const Layout layout{"scaled", 2, "[strategy.scaled-gradient]\nparameter = \"" + name + "\"", {}};
  const RunConfig config = config_of(reference, layout, 3, folder);
  const auto ranks = run_ranks(config, layout.ranks);
  const Judgement judgement = judge(ranks[1], reference, parameter_order(config));
  EXPECT_NE(judgement.failure.find("gradients of step 1: " + name + " differs: its norm is "),
            std::string::npos)
      << judgement.failure;
  EXPECT_EQ(judgement.deviations.at(2).where, name);  // the largest, too
}

// The cases are such that no tensor's fault hides behind the others.
TEST(Reference, SeesAScaledGradientOfEveryTensor) {
  for (const std::string& reference_name : case_names()) {
    const ReferenceCase reference = load_case(reference_name);
    const auto order = names_of(reference.expected.first_gradients);
    for (const std::string& name : order) {
      CapturedRun run = reference.expected;
      run.first_gradients[name] = run.first_gradients[name] * 1.001;
      EXPECT_NE(judge(run, reference, order).failure.find(name + " differs"), std::string::npos)
          << reference_name;
    }
  }
}

TEST(Reference, SeesOneWrongValueOfAStep) {
  const ReferenceCase reference = load_case("llama-tied");
  const auto order = names_of(reference.expected.final_weights);
  EXPECT_EQ(judge(reference.expected, reference, order).failure, "");
  const auto failure = [&](auto change) {
    CapturedRun run = reference.expected;
    change(run);
    return judge(run, reference, order).failure;
  };
  EXPECT_EQ(failure([](CapturedRun& run) { run.records[0].loss *= 1 + 2e-6; }),
            "loss of step 1: differs at step 1\n");
  EXPECT_EQ(failure([](CapturedRun& run) { run.records[6].grad_norm *= 1 - 2e-5; }),
            "gradient norm: differs at step 7\n");
  EXPECT_NE(failure([](CapturedRun& run) { run.records[9].lr *= 1 + 2e-12; }).find("lr of step 10"),
            std::string::npos);
  EXPECT_NE(failure([](CapturedRun& run) {
              --run.records[4].valid_tokens;
            }).find("valid_tokens of step 5"),
            std::string::npos);
  EXPECT_NE(failure([](CapturedRun& run) {
              at::Tensor& weight = run.final_weights["model.norm.weight"];
              weight = weight * 1.0002;
            }).find("weights at the end: model.norm.weight differs"),
            std::string::npos);
  EXPECT_NE(failure([](CapturedRun& run) {
              at::Tensor& weight = run.final_weights["model.norm.weight"];
              weight = at::full_like(weight, NAN);
            }).find("weights at the end: model.norm.weight differs"),
            std::string::npos);
}

}  // namespace
}  // namespace cleave::test
