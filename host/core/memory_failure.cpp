#include "core/memory_failure.h"

#include <algorithm>
#include <iomanip>
#include <numeric>
#include <optional>
#include <sstream>

#include "cleave/error.h"
#include "core/exception_text.h"

namespace cleave {

namespace {

std::string mib(int64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 20);
  return text.str();
}

int64_t sum(const MemoryShares& shares) {
  return std::accumulate(shares.begin(), shares.end(), int64_t{0});
}

// What makes a category smaller.
const char* advice(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::parameters:
      return "split the parameters: a strategy that shards them over more ranks, or that cuts "
             "matrices or the depth";
    case MemoryCategory::master:
    case MemoryCategory::optimizer:
      return "split the optimizer states: a strategy that shards them, over more ranks";
    case MemoryCategory::gradients:
      return "split the gradients: a strategy that shards them over more ranks, and reduces each "
             "micro-batch's; or smaller buckets";
    case MemoryCategory::activations:
      return "use a smaller train.micro_batch_size, a strategy that recomputes activations, or one "
             "that cuts matrices or the depth";
    case MemoryCategory::communication:
      return "use smaller buckets";
    default:
      return "use a smaller train.global_batch_size";
  }
}

// With what was asked for, where that is known; else by what was the most so far.
MemoryCategory largest(const std::optional<FailedAllocation>& failed, const MemoryShares& peak) {
  MemoryShares shares = failed ? failed->in_use : peak;
  if (failed) shares[static_cast<size_t>(failed->category)] += failed->bytes;
  return static_cast<MemoryCategory>(std::max_element(shares.begin(), shares.end()) -
                                     shares.begin());
}

void print_row(std::ostream& out, const char* name, int64_t predicted, const std::string& in_use,
               int64_t peak) {
  out << "\n  " << std::left << std::setw(13) << name << std::right << std::setw(12)
      << mib(predicted) << std::setw(12) << in_use << std::setw(12) << mib(peak);
}

std::string explanation(int rank, const SolvedPlan& plan, const MemoryAccount& memory,
                        const std::string& cause) {
  const auto failed = memory.failed_allocation();
  std::ostringstream out;
  out << "rank " << rank << ": out of memory";
  if (failed)
    out << ": " << mib(failed->bytes) << " MiB more for " << to_string(failed->category)
        << " can't be had";
  out << " (" << cause << ")\n  MiB             predicted      in use        peak";
  MemoryShares peak{};
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    peak[i] = memory.peak_bytes(category);
    print_row(out, to_string(category), plan.memory_bytes(category),
              failed ? mib(failed->in_use[i]) : "-", peak[i]);
  }
  print_row(out, "total", plan.memory_bytes(), failed ? mib(sum(failed->in_use)) : "-",
            memory.peak_bytes());
  const MemoryCategory category = largest(failed, peak);
  out << "\nmost goes to " << to_string(category) << "; " << advice(category);
  return out.str();
}

}  // namespace

void explain_failed_allocation(int rank, const SolvedPlan& plan, const MemoryAccount& memory,
                               const std::function<void()>& body) {
  try {
    body();
  } catch (const ConfigError&) {
    throw;
  } catch (...) {
    const std::string cause = exception_text();
    // memory of the standard library is in no account; a strategy's hook passes on the name alone
    if (!memory.failed_allocation() && cause.find("std::bad_alloc") == std::string::npos) throw;
    throw RuntimeError(explanation(rank, plan, memory, cause));
  }
}

}  // namespace cleave
