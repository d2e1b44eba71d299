#include "core/memory_table.h"

#include <iomanip>
#include <sstream>

namespace cleave {

namespace {

std::string mib(int64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 20);
  return text.str();
}

// "values 11.80, padding of shards 0.01"
std::string parts(const std::vector<MemoryItem>& items, MemoryCategory category) {
  std::string text;
  for (const MemoryItem& item : items)
    if (item.category == category && item.bytes != 0)
      text += (text.empty() ? "" : ", ") + item.what + " " + mib(item.bytes);
  return text;
}

void print_row(std::ostream& out, const char* name, int64_t bytes, const std::string& made_of) {
  out << "  " << std::left << std::setw(13) << name << std::right << std::setw(12) << mib(bytes)
      << (made_of.empty() ? "" : "  ") << made_of << "\n";
}

}  // namespace

void print_memory(std::ostream& out, const SolvedPlan& plan) {
  out << "memory of rank 0, predicted, MiB\n";
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    std::string made_of = parts(plan.memory, category);
    if (const std::string initial = parts(plan.initial_memory, category); !initial.empty())
      made_of += (made_of.empty() ? "before step 1: " : "; before step 1: ") + initial;
    print_row(out, to_string(category), plan.memory_bytes(category), made_of);
  }
  print_row(out, "total", plan.memory_bytes(), "at the fullest moment");
}

}  // namespace cleave
