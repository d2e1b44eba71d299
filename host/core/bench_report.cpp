#include "core/bench_report.h"

#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>

#include "cleave/error.h"
#include "core/bench_plan.h"
#include "core/versions.h"
#include "report/log_plot.h"

namespace cleave {

namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Of the ops, in the order in which they were measured.
std::vector<std::pair<std::string, std::vector<const BenchRow*>>> by_op(const BenchResult& result) {
  std::vector<std::pair<std::string, std::vector<const BenchRow*>>> ops;
  for (const BenchRow& row : result.rows) {
    if (ops.empty() || ops.back().first != row.op) ops.push_back({row.op, {}});
    if (row.failure.empty()) ops.back().second.push_back(&row);
  }
  return ops;
}

nlohmann::ordered_json to_json(const BenchRow& row) {
  nlohmann::ordered_json json = {{"op", row.op},
                                 {"dtype", row.dtype},
                                 {"bytes", row.bytes},
                                 {"asked_bytes", row.asked_bytes},
                                 {"ranks", row.ranks}};
  if (!row.failure.empty()) {
    json["failure"] = row.failure;
    return json;
  }
  json.update({{"median_us", row.median_us},
               {"p25_us", row.p25_us},
               {"p75_us", row.p75_us},
               {"algbw_gb_s", row.algbw_gb_s},
               {"busbw_gb_s", row.busbw_gb_s},
               {"algorithm", row.algorithm},
               {"wrong", row.wrong},
               {"repetitions", row.repetitions},
               {"calls", row.calls},
               {"wire_bytes", row.wire_bytes},
               {"network_formula_bytes", row.network_formula_bytes < 0
                                             ? nlohmann::ordered_json()
                                             : nlohmann::ordered_json(row.network_formula_bytes)},
               {"network_bytes", row.network_bytes}});
  return json;
}

PlotSeries series(const std::string& name, const std::vector<const BenchRow*>& rows,
                  double BenchRow::*value) {
  PlotSeries line{name, {}};
  for (const BenchRow* row : rows)
    if (row->bytes > 0 && row->*value > 0)
      line.points.emplace_back(static_cast<double>(row->bytes), row->*value);
  return line;
}

}  // namespace

std::vector<std::pair<std::string, LinkFit>> bench_fits(const BenchResult& result) {
  std::vector<std::pair<std::string, LinkFit>> fits;
  for (const auto& [op, rows] : by_op(result)) {
    std::vector<TimedMessage> messages;
    for (const BenchRow* row : rows)
      messages.push_back({row->busbw_gb_s * 1e3 * row->median_us, row->median_us});
    if (const auto fit = fit_link(messages)) fits.emplace_back(op, *fit);
  }
  return fits;
}

void print_bench_header(std::ostream& out, const BenchResult& result) {
  out << "bench: " << result.backend << ", " << result.path << "; " << result.ranks << " ranks on "
      << result.nodes << (result.nodes == 1 ? " node" : " nodes") << ", " << result.dtype
      << ", buffers from the communicator\n"
      << "times: microseconds of the slowest rank, GB/s: 1e9 bytes a second; bytes: of the larger "
         "buffer; bus = algorithm bandwidth x nccl-tests' factor\n"
      << "sent: bytes of one operation, all ranks, by the factor; to network: what leaves the "
         "nodes by the algorithm's formula, without headers (-: not known); counted: what all "
         "nodes' interfaces sent ("
      << (result.interfaces.empty() ? "none but the loopback" : joined(result.interfaces))
      << "; other programs' traffic counts too)\n"
      << std::left << std::setw(15) << "op" << std::right << std::setw(11) << "bytes"
      << std::setw(12) << "median us" << std::setw(12) << "p25" << std::setw(12) << "p75"
      << std::setw(10) << "alg GB/s" << std::setw(10) << "bus GB/s" << std::setw(13) << "sent"
      << std::setw(13) << "to network" << std::setw(13) << "counted" << std::setw(7) << "wrong"
      << "  algorithm" << std::endl;
}

void print_bench_row(std::ostream& out, const BenchRow& row) {
  out << std::left << std::setw(15) << row.op << std::right << std::setw(11) << row.bytes;
  if (!row.failure.empty()) {
    out << "  failed: " << row.failure << std::endl;
    return;
  }
  out << std::fixed << std::setprecision(1) << std::setw(12) << row.median_us << std::setw(12)
      << row.p25_us << std::setw(12) << row.p75_us << std::setprecision(4) << std::setw(10)
      << row.algbw_gb_s << std::setw(10) << row.busbw_gb_s << std::setprecision(0) << std::setw(13)
      << row.wire_bytes << std::setw(13);
  if (row.network_formula_bytes < 0)
    out << "-";
  else
    out << row.network_formula_bytes;
  out << std::setw(13) << row.network_bytes << std::setw(7) << row.wrong << "  " << row.algorithm;
  if (row.bytes != row.asked_bytes) out << " (" << row.asked_bytes << " asked for)";
  out << std::endl;
}

void print_bench_summary(std::ostream& out, const BenchResult& result) {
  for (const auto& [op, fit] : bench_fits(result))
    out << op << ": time = " << std::fixed << std::setprecision(1) << fit.alpha_us
        << " us + bytes sent by a rank / " << std::setprecision(4) << fit.beta_gb_s
        << " GB/s; half of the sizes within " << std::setprecision(0) << 100 * fit.deviation
        << " %\n";
  for (const std::string& reason : result.left_out) out << "left out: " << reason << "\n";
  for (const BenchRow& row : result.rows)
    if (row.wrong > 0)
      out << "WRONG: " << row.op << " of " << row.bytes << " bytes: " << row.wrong
          << " elements differ from what they must be\n";
  out << std::flush;
}

std::string bench_json(const BenchResult& result) {
  nlohmann::ordered_json versions, rows = nlohmann::json::array(), fits = nlohmann::json::array();
  for (const auto& [name, version] : cleave::versions()) versions[name] = version;
  for (const BenchRow& row : result.rows) rows.push_back(to_json(row));
  for (const auto& [op, fit] : bench_fits(result))
    fits.push_back({{"op", op},
                    {"alpha_us", fit.alpha_us},
                    {"beta_gb_s", fit.beta_gb_s},
                    {"median_deviation", fit.deviation}});
  const nlohmann::ordered_json all = {{"backend", result.backend},
                                      {"path", result.path},
                                      {"ranks", result.ranks},
                                      {"nodes", result.nodes},
                                      {"dtype", result.dtype},
                                      {"buffers", "from the communicator"},
                                      {"network_interfaces", result.interfaces},
                                      {"versions", versions},
                                      {"rows", rows},
                                      {"fits", fits},
                                      {"left_out", result.left_out}};
  return all.dump(1) + "\n";
}

std::string bench_svg(const BenchResult& result) {
  LogPlot bandwidth{"bus bandwidth, GB/s", {}};
  LogPlot time{"time of the slowest rank, us", {}};
  for (const auto& [op, rows] : by_op(result)) {
    if (op == bench_op_name(CLEAVE_BARRIER)) continue;  // of no size
    bandwidth.series.push_back(series(op, rows, &BenchRow::busbw_gb_s));
    time.series.push_back(series(op, rows, &BenchRow::median_us));
  }
  return draw_log_plots(message(result.backend, ", ", result.ranks, " ranks on ", result.nodes,
                                result.nodes == 1 ? " node, " : " nodes, ", result.dtype),
                        {bandwidth, time});
}

}  // namespace cleave
