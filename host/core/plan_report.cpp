#include "core/plan_report.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <iomanip>
#include <map>

#include "cleave/backend.h"

namespace cleave {

namespace {

constexpr int kMaxRankRows = 64;

void print_rank(std::ostream& out, const Mesh& mesh, int rank) {
  out << std::setw(6) << rank;
  for (const MeshAxis& axis : mesh.leaf_axes())
    out << std::setw(static_cast<int>(axis.name.size()) + 2) << mesh.coordinate(rank, axis.name);
  out << "\n";
}

void print_ranks(std::ostream& out, const Mesh& mesh) {
  out << "\nranks and their coordinates (neighbours in rank share the innermost axis)\n  rank";
  for (const MeshAxis& axis : mesh.leaf_axes()) out << "  " << axis.name;
  out << "\n";
  const int world_size = mesh.world_size();
  const int shown = std::min(world_size, kMaxRankRows);
  for (int rank = 0; rank < shown; ++rank) print_rank(out, mesh, rank);
  if (shown == world_size) return;
  out << "   ...\n";
  print_rank(out, mesh, world_size - 1);
}

std::string describe(const Placement& placement, const Mesh& mesh) {
  constexpr const char* kKinds[] = {"replicate", "subset", "shard", "partial", "independent"};
  std::string text;
  for (const MeshAxis& axis : mesh.leaf_axes())
    if (axis.size > 1)
      text += (text.empty() ? "" : ", ") + axis.name + " " +
              kKinds[static_cast<int>(placement.kind(axis.name))];
  return text.empty() ? "whole" : text;
}

// One line for all tensors that are placed alike: how many, and their elements on rank 0.
void print_placements(std::ostream& out, const Mesh& mesh, const Model& model, const char* what,
                      Placement Parameter::*member) {
  std::map<std::string, std::pair<int, int64_t>> groups;
  for (const Parameter* parameter : model.parameters) {
    auto& [tensors, elements] = groups[describe(parameter->*member, mesh)];
    ++tensors;
    elements += (parameter->*member).num_elements();
  }
  for (const auto& [placement, group] : groups)
    out << "  " << std::left << std::setw(16) << what << std::setw(32) << placement << std::right
        << std::setw(5) << group.first << " tensors" << std::setw(14) << group.second
        << " elements on rank 0\n";
}

void print_communication(std::ostream& out, const Mesh& mesh, const SolvedPlan& plan) {
  out << "\ncommunication per step, sent by rank 0 (predicted)\n";
  for (const SolvedPlan::Use& entry : plan.communication) {
    const int size = mesh.size(entry.use.axis);
    out << "  " << entry.strategy << ": " << op_name(entry.use.op) << " of "
        << c10::toString(entry.use.dtype) << " along " << entry.use.axis << ", "
        << mesh.world_size() / size << " group(s) of " << size << ", rank 0's is {";
    const std::vector<int> group = mesh.group(0, entry.use.axis);
    for (size_t i = 0; i < group.size() && i < 8; ++i) out << (i ? ", " : "") << group[i];
    out << (group.size() > 8 ? ", ..." : "") << "}, " << std::fixed << std::setprecision(0)
        << entry.use.wire_bytes_per_step << " bytes\n";
  }
  if (plan.communication.empty()) out << "  none\n";
}

}  // namespace

void print_layout(std::ostream& out, const Mesh& mesh, const Model& model, const SolvedPlan& plan) {
  print_ranks(out, mesh);
  out << "\nplacements\n";
  print_placements(out, mesh, model, "parameters", &Parameter::value_placement);
  print_placements(out, mesh, model, "gradients", &Parameter::gradient_placement);
  print_placements(out, mesh, model, "optimizer state", &Parameter::state_placement);
  out << "\nstrategies, in the order in which they act:";
  for (const std::string& name : plan.order) out << " " << name;
  out << (plan.order.empty() ? " none\n" : "\n");
  print_communication(out, mesh, plan);
}

}  // namespace cleave
