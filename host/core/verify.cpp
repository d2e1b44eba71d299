#include "core/verify.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <iomanip>

#include "cleave/error.h"
#include "core/layout.h"

namespace cleave {

namespace {

double norm_of(const at::Tensor& x) {
  return x.to(at::kDouble).norm().item<double>();
}

double norm_of_difference(const at::Tensor& a, const at::Tensor& b) {
  return norm_of(a.to(at::kDouble) - b.to(at::kDouble));
}

void add(Deviation& deviation, double value, double allowed, const std::string& where) {
  // a deviation that is not a number is out of every bound
  const double ratio = value == 0 ? 0 : std::isfinite(value) ? value / allowed : INFINITY;
  ++deviation.compared;
  if (ratio > deviation.largest || deviation.where.empty()) {
    deviation.largest = ratio;
    deviation.where = where;
  }
  if (ratio > 1 && deviation.first.empty()) deviation.first = where;
}

double relative(double a, double b) {
  return std::abs(a - b) / std::abs(b);
}

RunConfig on_one_rank(RunConfig config) {
  config.mesh.clear();
  config.strategies.clear();
  config.communication.backend = {"local", {"verify"}, {}};
  return config;
}

// A thread of its own: a memory account belongs to one thread.
CapturedRun run_reference(const RunConfig& config) {
  CapturedRun reference;
  run_as_threads(1, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                        const std::function<void()>& on_failure) {
    reference = run_captured(on_one_rank(config), process, bootstrap, on_failure);
  });
  return reference;
}

bool print(std::ostream& out, const std::vector<Deviation>& deviations) {
  bool is_good = true;
  out << std::left << std::setw(24) << "compared" << std::right << std::setw(7) << "values"
      << std::setw(12) << "tolerance" << std::setw(14) << "largest/tol"
      << "  verdict  at\n";
  for (const Deviation& deviation : deviations) {
    const bool passed = deviation.first.empty();
    is_good = is_good && passed;
    out << std::left << std::setw(24) << deviation.what << std::right << std::setw(7)
        << deviation.compared << std::setw(12) << std::scientific << std::setprecision(1)
        << deviation.tolerance << std::setw(14) << std::fixed << std::setprecision(4)
        << deviation.largest << "  " << (passed ? "ok     " : "DIFFERS") << "  " << deviation.where
        << "\n";
  }
  for (const Deviation& deviation : deviations)
    if (!deviation.first.empty())
      out << deviation.what << ": the first that differs is " << deviation.first << "\n";
  return is_good;
}

}  // namespace

Tolerances tolerances(const std::string& dtype) {
  if (dtype == "bfloat16") return {2e-2, 5e-2, 1e-1, 2e-2};
  return {1e-6, 1e-5, 1e-5, 1e-4};
}

std::vector<Deviation> compare(const CapturedRun& run, const CapturedRun& reference,
                               const std::vector<std::string>& parameter_order,
                               const Tolerances& bounds) {
  Deviation loss{"loss of step 1", 0, 0, "", "", bounds.loss};
  Deviation norm{"gradient norm", 0, 0, "", "", bounds.norm};
  Deviation gradient{"gradients of step 1", 0, 0, "", "", bounds.gradient};
  Deviation weight{"weights at the end", 0, 0, "", "", bounds.weight};
  add(loss, relative(run.records[0].loss, reference.records[0].loss), bounds.loss, "step 1");
  for (size_t i = 0; i < reference.records.size(); ++i)
    add(norm, relative(run.records[i].grad_norm, reference.records[i].grad_norm), bounds.norm,
        "step " + std::to_string(i + 1));
  double squares = 0;
  for (const auto& [name, expected] : reference.first_gradients)
    squares += std::pow(norm_of(expected), 2);
  for (const std::string& name : parameter_order) {
    const at::Tensor& expected = reference.first_gradients.at(name);
    add(gradient, norm_of_difference(run.first_gradients.at(name), expected),
        bounds.gradient * std::max(norm_of(expected), 1e-2 * std::sqrt(squares)), name);
    const at::Tensor& final_weight = reference.final_weights.at(name);
    add(weight, norm_of_difference(run.final_weights.at(name), final_weight),
        bounds.weight * norm_of(final_weight), name);
  }
  return {loss, norm, gradient, weight};
}

bool verify(RunConfig config, int64_t steps, const ProcessInfo& process, const Bootstrap& bootstrap,
            const std::function<void()>& on_failure, std::ostream& out) {
  config.train.steps = std::min(config.train.steps, steps);
  config.optimizer.epsilon = std::max(config.optimizer.epsilon, 1e-2);
  bool is_good = true;
  CapturedRun run;
  const auto body = [&](const TrainerContext& given, const SolvedPlan& plan) {
    if (!plan.lossy.empty())
      throw ConfigError(message("host verify compares what must be equal, and [strategy.",
                                plan.lossy[0], "] changes gradients on their way; verify without ",
                                "it, and look at the loss with it (host compare)"));
    run = capture(given);
    at::Tensor verdict = at::ones({1}, at::kInt);
    if (given.rank == 0) {
      out << "verify: " << given.mesh.to_string() << " against one rank, " << config.train.steps
          << " steps, " << config.train.dtype << ", epsilon " << config.optimizer.epsilon
          << std::endl;
      std::vector<std::string> order;
      for (const Parameter* parameter : given.model.parameters) order.push_back(parameter->name);
      verdict.fill_(
          print(out, compare(run, run_reference(config), order, tolerances(config.train.dtype))));
      out.flush();
    }
    given.communicators.control().broadcast(verdict, 0).wait_host();
    is_good = verdict.item<int>() == 1;
  };
  run_as_rank(config, process, bootstrap, on_failure, body);
  return is_good;
}

}  // namespace cleave
