#include "checkpoint/inspect.h"

#include <algorithm>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/stored_json.h"
#include "cleave/error.h"

namespace cleave {

namespace {

namespace fs = std::filesystem;

struct Row {
  fs::path folder;
  std::optional<int64_t> step;  // its name's
  std::optional<Manifest> manifest;
  std::string damage;  // "": verified
};

Row examine(const fs::path& folder, std::optional<int64_t> step) {
  Row row{folder, step, std::nullopt, ""};
  try {
    row.manifest = read_manifest(folder);
    row.step = row.manifest->step;
    CheckpointReader(folder).verify();
  } catch (const ConfigError& error) {
    row.damage = error.what();
  }
  return row;
}

bool is_checkpoint(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / kManifestName, error);
}

std::vector<FoundCheckpoint> checkpoints_in(const fs::path& folder) {
  std::vector<FoundCheckpoint> found = find_checkpoints(folder);
  if (found.empty())
    throw ConfigError(message(folder.string(), ": holds no checkpoint; give the folder of one, or ",
                              "a directory of them"));
  return found;
}

Json json_of(const Row& row) {
  Json object = {{"folder", row.folder.string()},
                 {"step", row.step ? Json(*row.step) : Json()},
                 {"verified", row.damage.empty()},
                 {"damage", row.damage.empty() ? Json() : Json(row.damage)}};
  if (!row.manifest) return object;
  const Manifest& manifest = *row.manifest;
  object["tokens"] = manifest.tokens;
  object["world_size"] = manifest.world_size;
  object["mesh"] = manifest.mesh;
  object["strategies"] = manifest.strategies;
  object["dtype"] = manifest.dtype;
  object["bytes"] = manifest.size_bytes();
  object["files"] = Json::array();
  for (const StoredFile& file : manifest.files)
    object["files"].push_back({{"name", file.name}, {"bytes", file.size_bytes}});
  object["tensors"] = Json::array();
  for (const StoredTensor& tensor : manifest.tensors) {
    Json slices = Json::array();
    for (const StoredSlice& slice : tensor.slices) slices.push_back(json_of(slice));
    object["tensors"].push_back(
        {{"name", tensor.name}, {"shape", tensor.shape}, {"slices", std::move(slices)}});
  }
  return object;
}

using Cells = std::vector<std::vector<std::string>>;

/// Columns as wide as their longest cell, two spaces apart.
void print_columns(const Cells& rows, std::ostream& out) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i)
      out << row[i] << std::string(widths[i] - row[i].size() + 2, ' ');
    out << row.back() << '\n';
  }
}

std::string mebibytes(int64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return text.str();
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "none" : text;
}

std::string state_of(const Row& row) {
  return row.damage.empty() ? "verified" : "damaged: " + row.damage;
}

void print_details(const Row& row, std::ostream& out) {
  out << row.folder.string() << '\n';
  if (!row.manifest) {
    out << state_of(row) << '\n';
    return;
  }
  const Manifest& manifest = *row.manifest;
  print_columns(
      {{"step", std::to_string(manifest.step)},
       {"tokens", std::to_string(manifest.tokens)},
       {"ranks", message(manifest.world_size, " (", manifest.mesh, ")")},
       {"strategies", joined(manifest.strategies)},
       {"dtype", manifest.dtype},
       {"size", message(manifest.size_bytes(), " bytes (", mebibytes(manifest.size_bytes()), ")")},
       {"state", state_of(row)}},
      out);
  out << '\n';
  Cells files = {{"file", "bytes"}};
  for (const StoredFile& file : manifest.files)
    files.push_back({file.name, std::to_string(file.size_bytes)});
  print_columns(files, out);
  out << '\n';
  Cells tensors = {{"tensor", "shape", "slices"}};
  for (const StoredTensor& tensor : manifest.tensors)
    tensors.push_back({tensor.name, show(tensor.shape), std::to_string(tensor.slices.size())});
  print_columns(tensors, out);
}

void print_directory(const fs::path& directory, const std::vector<Row>& rows, std::ostream& out) {
  Cells cells = {{"checkpoint", "tokens", "size", "ranks", "layout", "dtype", "state"}};
  for (const Row& row : rows) {
    const std::string name = row.folder.filename().string();
    if (row.manifest)
      cells.push_back({name, std::to_string(row.manifest->tokens),
                       mebibytes(row.manifest->size_bytes()),
                       std::to_string(row.manifest->world_size), row.manifest->mesh,
                       row.manifest->dtype, state_of(row)});
    else
      cells.push_back({name, "-", "-", "-", "-", "-", state_of(row)});
  }
  print_columns(cells, out);
  std::string fault;
  const auto latest = read_pointer(directory, fault);
  if (latest)
    out << "latest: " << latest->folder.filename().string() << '\n';
  else
    out << "latest: " << (fault.empty() ? "there is no such file" : fault) << '\n';
}

}  // namespace

bool inspect(const fs::path& folder, bool json, std::ostream& out) {
  std::vector<Row> rows;
  const bool is_one = is_checkpoint(folder);
  if (is_one) {
    rows.push_back(examine(folder, std::nullopt));
  } else {
    for (const FoundCheckpoint& found : checkpoints_in(folder))
      rows.push_back(examine(found.folder, found.step));
  }
  if (json) {
    Json list = Json::array();
    for (const Row& row : rows) list.push_back(json_of(row));
    out << list.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
  } else if (is_one) {
    print_details(rows[0], out);
  } else {
    print_directory(folder, rows, out);
  }
  return std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.damage.empty(); });
}

fs::path resolve_checkpoint(const fs::path& folder, std::ostream& out) {
  if (is_checkpoint(folder)) {
    CheckpointReader(folder).verify();
    return folder;
  }
  for (const FoundCheckpoint& found : checkpoints_in(folder)) {
    const Row row = examine(found.folder, found.step);
    if (row.damage.empty()) return found.folder;
    out << "passed over: " << row.damage << std::endl;
  }
  throw ConfigError(message(folder.string(), ": none of its checkpoints is whole; give the folder ",
                            "of another run"));
}

}  // namespace cleave
