#include "data/prepare.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iomanip>

#include "cleave/error.h"
#include "data/document_splitter.h"
#include "data/index_file.h"
#include "data/index_writer.h"
#include "data/indexed_tokens.h"
#include "data/output_file.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;

constexpr double kBytesPerMib = 1024.0 * 1024.0;

/// Says from time to time how far a long run is.
class Progress {
 public:
  Progress(int64_t total_bytes, std::ostream& out) : total_bytes_(total_bytes), out_(out) {}

  int64_t done_bytes() const { return done_bytes_; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void add(int64_t bytes) {
    done_bytes_ += bytes;
    if (seconds() < next_report_s_) return;
    next_report_s_ = seconds() + kReportEvery_s;
    out_ << message("prepare: ", std::fixed, std::setprecision(0), done_bytes_ / kBytesPerMib,
                    " of ", total_bytes_ / kBytesPerMib, " MiB, ",
                    done_bytes_ / kBytesPerMib / seconds(), " MiB/s")
         << std::endl;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kReportEvery_s = 5;
  int64_t total_bytes_;
  std::ostream& out_;
  int64_t done_bytes_ = 0;
  double next_report_s_ = kReportEvery_s;
  Clock::time_point start_ = Clock::now();
};

/// Size of an input that exists, is a file and is not empty.
int64_t checked_input_bytes(const fs::path& input) {
  std::error_code error;
  const fs::file_status status = fs::status(input, error);
  if (!fs::exists(status)) {
    throw ConfigError(message(input.string(), ": there is no such input file",
                              error && error.value() != ENOENT ? " (" + error.message() + ")" : "",
                              "; check its name"));
  }
  if (!fs::is_regular_file(status)) {
    throw ConfigError(message(input.string(), ": is ",
                              fs::is_directory(status) ? "a folder" : "not a regular file",
                              "; name text files"));
  }
  const auto bytes = static_cast<int64_t>(fs::file_size(input));
  if (bytes == 0) {
    throw ConfigError(message(input.string(), ": is empty (0 bytes); leave it out"));
  }
  return bytes;
}

/// Writing the output must not destroy what it is made of.
void check_not_an_output(const fs::path& input, const fs::path& prefix) {
  for (const char* suffix : {".bin", ".idx", ".bin.tmp", ".idx.tmp"}) {
    const fs::path output = with_suffix(prefix, suffix);
    std::error_code ignored;
    if (fs::equivalent(input, output, ignored)) {
      throw ConfigError(message(input.string(), ": is an input and the output ", output.string(),
                                " at once; choose another output"));
    }
  }
}

void check_output(const fs::path& prefix) {
  std::error_code ignored;
  const fs::path extension = prefix.extension();
  if (extension == ".bin" || extension == ".idx" || extension == ".txt") {
    fs::path advice = prefix;
    throw ConfigError(message(prefix.string(), ": the output is the prefix of a .bin/.idx pair; ",
                              "write \"", advice.replace_extension().string(), "\""));
  }
  if (prefix.filename().empty() || fs::is_directory(prefix, ignored)) {
    throw ConfigError(message("output \"", prefix.string(), "\": no file name; ",
                              "name the prefix of the .bin/.idx pair, e.g. \"",
                              (prefix / "corpus").string(), "\""));
  }
  const fs::path folder = prefix.parent_path();
  if (!folder.empty() && !fs::is_directory(folder, ignored)) {
    throw ConfigError(message(prefix.string(), ": the folder ", folder.string(),
                              " does not exist; create it first"));
  }
}

/// Checks all that can be checked before anything is written; returns the bytes to read.
int64_t check_request(const PrepareRequest& request) {
  if (request.inputs.empty()) {
    throw ConfigError("prepare: no input file; name one text file or more");
  }
  if (request.document_separator.find_first_of("\r\n") != std::string::npos) {
    throw ConfigError("prepare: the document separator contains a line end; give one line");
  }
  check_output(request.output);
  int64_t bytes = 0;
  for (const fs::path& input : request.inputs) {
    bytes += checked_input_bytes(input);
    check_not_an_output(input, request.output);
  }
  return bytes;
}

void read_input(const fs::path& input, DocumentSplitter& splitter, Progress& progress) {
  std::ifstream stream(input, std::ios::binary);
  if (!stream) {
    const char* reason = std::strerror(errno);
    throw ConfigError(
        message(input.string(), ": cannot be opened: ", reason, "; check the file's permissions"));
  }
  std::vector<char> block(size_t{1} << 20);
  while (stream) {
    stream.read(block.data(), static_cast<std::streamsize>(block.size()));
    const std::streamsize count = stream.gcount();
    splitter.feed({block.data(), static_cast<size_t>(count)});
    progress.add(count);
  }
  if (!stream.eof()) {
    throw RuntimeError(message(input.string(), ": reading failed after ", progress.done_bytes(),
                               " bytes of all inputs; check the disk"));
  }
  splitter.end_file();
}

/// Opens the files as a training run will, and compares counts.
void verify_written(const OutputFile& bin, const OutputFile& idx, int64_t num_documents) {
  const IndexedTokens written(bin.temporary_path(), idx.temporary_path());
  if (written.num_tokens() != bin.size_bytes() || written.num_documents() != num_documents) {
    throw RuntimeError(message(bin.path().string(), ": read back ", written.num_tokens(),
                               " tokens in ", written.num_documents(), " documents, written were ",
                               bin.size_bytes(), " in ", num_documents, "; check the disk"));
  }
}

/// An old .idx goes first: a run that is killed here leaves no pair, never a mixed one.
void publish(OutputFile& bin, OutputFile& idx) {
  const fs::path folder = bin.path().parent_path();
  std::error_code error;
  if (fs::remove(idx.path(), error)) sync_folder(folder);
  if (error) {
    throw RuntimeError(message(idx.path().string(), ": cannot be removed: ", error.message(),
                               "; remove it, or choose another output"));
  }
  bin.publish();
  idx.publish();
  sync_folder(folder);
}

}  // namespace

void prepare(const PrepareRequest& request, std::ostream& out) {
  Progress progress(check_request(request), out);
  OutputFile bin(with_suffix(request.output, ".bin"));
  OutputFile idx(with_suffix(request.output, ".idx"));
  IndexWriter index(idx);
  DocumentSplitter splitter(request.document_separator, bin, index);
  for (const fs::path& input : request.inputs) read_input(input, splitter, progress);
  if (bin.size_bytes() == 0) {
    throw ConfigError(message(request.inputs.front().string(), ": no tokens, the input is ",
                              "separator lines only; check the document separator"));
  }
  index.finish();
  bin.sync();
  idx.sync();
  verify_written(bin, idx, index.num_documents());
  const int64_t num_tokens = bin.size_bytes();
  publish(bin, idx);
  out << message("prepare: documents ", index.num_documents(), ", tokens ", num_tokens,
                 " (bytes, vocabulary 256), bytes read ", progress.done_bytes(), ", ", std::fixed,
                 std::setprecision(2), progress.seconds(), " s; wrote ", bin.path().string(),
                 " and ", idx.path().string(), ", to use as data.path = \"",
                 request.output.string(), "\"")
      << std::endl;
}

}  // namespace cleave
