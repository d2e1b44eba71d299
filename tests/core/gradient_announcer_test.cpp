// When gradients are announced, and in which order.
#include "core/gradient_announcer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>

namespace cleave {
namespace {

/// Writes down what it is told, and takes gradients away at once, as a sharding strategy may.
class RecordingReducer final : public GradientReducer {
 public:
  void allocate_gradients(const std::vector<Parameter*>&) override {}
  void provide_gradients(const UnitInfo& unit) override { told.push_back("unit " + unit.name); }
  void gradient_ready(Parameter& parameter, bool is_last) override {
    told.push_back(parameter.name + (is_last ? " last" : ""));
    values[parameter.name] = parameter.gradient.item<float>();
    parameter.gradient_is_stale = true;
  }
  void finish_gradients() override {}

  std::vector<std::string> told;
  std::map<std::string, float> values;
};

struct Fixture {
  // unit 0: tied; unit 1: a, b, c; unit 2: tied, d
  explicit Fixture(int64_t micro_batches = 1, bool is_early = true, bool has_reducer = true) {
    const std::vector<std::pair<std::string, std::vector<int>>> all = {
        {"tied", {0, 2}}, {"a", {1}}, {"b", {1}}, {"c", {1}}, {"d", {2}}};
    parameters.resize(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      parameters[i].name = all[i].first;
      parameters[i].units = all[i].second;
      parameters[i].index = static_cast<int>(i);
      parameters[i].gradient = at::full({1}, 7.0f);
    }
    for (int unit = 0; unit < 3; ++unit) {
      units[unit].index = unit;
      units[unit].name = std::to_string(unit);
    }
    for (const char* name : {"d", "c", "b", "a", "tied"}) order.push_back(&(*this)[name]);
    announcer = std::make_unique<GradientAnnouncer>(order, 3, micro_batches,
                                                    has_reducer ? &reducer : nullptr, is_early);
    announcer->begin_step();
  }

  Parameter& operator[](const std::string& name) {
    for (Parameter& parameter : parameters)
      if (parameter.name == name) return parameter;
    throw std::out_of_range(name);
  }
  void add_to(const std::string& name, float value) {
    begin_use((*this)[name]);
    add((*this)[name], at::full({1}, value));
  }
  void end(const std::string& name) { end_use((*this)[name]); }

  std::vector<Parameter> parameters;
  UnitInfo units[3];
  RecordingReducer reducer;
  std::vector<Parameter*> order;  // backward
  std::unique_ptr<GradientAnnouncer> announcer;
};

using Told = std::vector<std::string>;

TEST(GradientAnnouncer, AnnouncesWhatIsCompleteWhileTheUnitRuns) {
  Fixture f;
  f.announcer->before(f.units[1]);
  f.add_to("c", 1);
  EXPECT_EQ(f.reducer.told, Told({"unit 1"}));
  f.end("c");
  EXPECT_EQ(f.reducer.told, Told({"unit 1", "c last"}));
  f.add_to("b", 2);
  f.end("b");
  f.add_to("a", 3);
  EXPECT_EQ(f.reducer.told, Told({"unit 1", "c last", "b last"}));
  f.announcer->after(1);
  EXPECT_EQ(f.reducer.told, Told({"unit 1", "c last", "b last", "a last"}));
  EXPECT_EQ(f.reducer.values.at("a"), 3);
}

TEST(GradientAnnouncer, KeepsTheOrderWhateverCompletesFirst) {
  Fixture f;
  f.announcer->before(f.units[1]);
  for (const char* name : {"a", "b"}) {
    f.add_to(name, 1);
    f.end(name);
  }
  EXPECT_EQ(f.reducer.told, Told({"unit 1"}));
  f.add_to("c", 1);
  f.end("c");
  EXPECT_EQ(f.reducer.told, Told({"unit 1", "c last", "b last", "a last"}));
  f.announcer->after(1);
  EXPECT_EQ(f.reducer.told.size(), 4u);
}

// The reducer may be sending it.
TEST(GradientAnnouncer, LeavesAnAnnouncedGradientAlone) {
  Fixture f;
  f.announcer->before(f.units[1]);
  for (const char* name : {"c", "b", "a"}) {
    f.add_to(name, 5);
    f.end(name);
  }
  f.announcer->after(1);
  for (const char* name : {"c", "b", "a"}) EXPECT_EQ(f[name].gradient.item<float>(), 5) << name;
}

TEST(GradientAnnouncer, WaitsForTheUnitWhereItMustNotBeEarly) {
  Fixture f(1, false);
  f.announcer->before(f.units[1]);
  f.add_to("c", 1);
  f.end("c");
  EXPECT_EQ(f.reducer.told, Told({"unit 1"}));
  f.announcer->after(1);
  EXPECT_EQ(f.reducer.told, Told({"unit 1", "c last", "b last", "a last"}));
  EXPECT_EQ(f.reducer.values.at("c"), 1);
}

// An operation that a strategy has cut in two adds twice.
TEST(GradientAnnouncer, AGradientIsCompleteWhenItsLastUseHasEnded) {
  Fixture f;
  begin_use(f["c"]);
  begin_use(f["c"]);
  f.announcer->before(f.units[1]);
  add(f["c"], at::full({1}, 1.0f));
  f.end("c");
  EXPECT_EQ(f.reducer.told, Told({"unit 1"}));
  add(f["c"], at::full({1}, 2.0f));
  f.end("c");
  EXPECT_EQ(f.reducer.told, Told({"unit 1", "c last"}));
  EXPECT_EQ(f.reducer.values.at("c"), 3);
  EXPECT_THROW(f.end("c"), std::exception);
}

TEST(GradientAnnouncer, UnusedParametersAreZeroAndAnnounced) {
  Fixture f;
  f.announcer->before(f.units[1]);
  f.add_to("b", 4);
  f.end("b");
  f.announcer->after(1);
  EXPECT_EQ(f.reducer.told, Told({"unit 1", "c last", "b last", "a last"}));
  EXPECT_EQ(f.reducer.values, (std::map<std::string, float>{{"a", 0}, {"b", 4}, {"c", 0}}));
}

TEST(GradientAnnouncer, ATiedWeightIsAnnouncedAfterItsLastUse) {
  Fixture f;
  f.announcer->before(f.units[2]);
  f.add_to("tied", 1);
  f.end("tied");
  f.announcer->after(2);
  f.announcer->before(f.units[0]);
  f.add_to("tied", 2);
  f.end("tied");
  f.announcer->after(0);
  EXPECT_EQ(f.reducer.told, Told({"unit 2", "d last", "unit 0", "tied last"}));
  EXPECT_EQ(f.reducer.values.at("tied"), 3);
}

TEST(GradientAnnouncer, TellsTheLastMicroBatchOfAStep) {
  Fixture f(2);
  for (int step = 0; step < 2; ++step) {
    f.reducer.told.clear();
    f.announcer->begin_step();
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      f.announcer->before(f.units[2]);
      f.add_to("d", 1);
      f.end("d");
      f.announcer->after(2);
    }
    EXPECT_EQ(f.reducer.told, Told({"unit 2", "d", "unit 2", "d last"}));
  }
}

TEST(GradientAnnouncer, CompletionWaitsWithDeferredContributions) {
  Fixture f;
  DeferredGradients deferred;
  f["c"].deferred = &deferred;
  f.add_to("c", 6);
  f.end("c");
  f["c"].deferred = nullptr;
  f.announcer->before(f.units[1]);
  EXPECT_EQ(f.reducer.told, Told({"unit 1"}));
  for (const auto& contribution : deferred) contribution();
  EXPECT_EQ(f.reducer.told, Told({"unit 1", "c last"}));
  EXPECT_EQ(f.reducer.values.at("c"), 6);
}

TEST(GradientAnnouncer, WithoutAReducerUnusedGradientsAreZeroed) {
  Fixture f(1, true, false);
  f.announcer->before(f.units[1]);
  f.add_to("b", 4);
  f.end("b");
  f.announcer->after(1);
  EXPECT_EQ(f["a"].gradient.item<float>(), 0);
  EXPECT_EQ(f["b"].gradient.item<float>(), 4);
}

}  // namespace
}  // namespace cleave
