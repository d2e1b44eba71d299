// `host bench` on paper: a table that grows, JSON, pictures.
#pragma once

#include <ostream>
#include <string>

#include "core/bench_row.h"

namespace cleave {

/// Backend, path, ranks, what a time is; then the table's head.
void print_bench_header(std::ostream& out, const BenchResult& result);
/// At once, so that the table shows progress.
void print_bench_row(std::ostream& out, const BenchRow& row);
/// Alpha and beta per op, what was left out, how many rows failed or were wrong.
void print_bench_summary(std::ostream& out, const BenchResult& result);

/// One object: backend, path, ranks, nodes, dtype, buffers, network_interfaces, versions, rows,
/// fits, left_out.
std::string bench_json(const BenchResult& result);
/// Bus bandwidth and time over size, a line an op.
std::string bench_svg(const BenchResult& result);

}  // namespace cleave
