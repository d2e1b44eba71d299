#include "huggingface/box_reader.h"

#include <algorithm>
#include <vector>

#include "cleave/error.h"

namespace cleave {

namespace {

constexpr int64_t kWindowBytes = 4 << 20;
constexpr int64_t kPageBytes = 4096;
constexpr size_t kMostRuns = 1 << 16;

/// Takes runs of elements in ascending order and reads those that lie close together at once.
class RunReader {
 public:
  RunReader(const SafetensorsFile& file, const TensorView& tensor, float* out)
      : file_(file), tensor_(tensor), element_bytes_(bytes_of(tensor.type)), out_(out) {}
  ~RunReader() { file_.done_reading(tensor_.bytes); }
  RunReader(const RunReader&) = delete;
  RunReader& operator=(const RunReader&) = delete;

  void add(int64_t first, int64_t count) {
    const int64_t most = kWindowBytes / element_bytes_;
    for (; count > most; first += most, count -= most) add_short(first, most);
    add_short(first, count);
  }

  void flush() {
    if (runs_.empty()) return;
    const int64_t begin = runs_.front().first, end = runs_.back().first + runs_.back().count;
    const auto window =
        tensor_.bytes.subspan(begin * element_bytes_, (end - begin) * element_bytes_);
    file_.will_read(window);
    for (const Run& run : runs_) {
      to_float32(tensor_.type, tensor_.bytes.data() + run.first * element_bytes_, run.count, out_);
      out_ += run.count;
    }
    file_.done_reading(window);
    runs_.clear();
  }

 private:
  struct Run {
    int64_t first;
    int64_t count;
  };

  void add_short(int64_t first, int64_t count) {
    if (!runs_.empty()) {
      const int64_t end = runs_.back().first + runs_.back().count;
      const bool is_near = (first - end) * element_bytes_ < kPageBytes;
      const bool fits = (first + count - runs_.front().first) * element_bytes_ <= kWindowBytes;
      if (!is_near || !fits || runs_.size() == kMostRuns) flush();
    }
    runs_.push_back({first, count});
  }

  const SafetensorsFile& file_;
  const TensorView& tensor_;
  int64_t element_bytes_;
  float* out_;
  std::vector<Run> runs_;
};

/// Calls run(first, count) for the box's stretches of consecutive elements, in ascending order.
template <typename Function>
void for_each_run(const std::vector<int64_t>& shape, const Box& box, Function run) {
  size_t inner = shape.size();  // dims inner.. are whole, so one run spans them
  int64_t inner_size = 1;
  while (inner > 0 && box.end[inner - 1] - box.begin[inner - 1] == shape[inner - 1])
    inner_size *= shape[--inner];
  if (inner == 0) return run(0, inner_size);
  const size_t last = inner - 1;  // the run's own dim
  const int64_t length = (box.end[last] - box.begin[last]) * inner_size;
  std::vector<int64_t> index(box.begin.begin(), box.begin.begin() + last);
  while (true) {
    int64_t first = 0;
    for (size_t d = 0; d < last; ++d) first = first * shape[d] + index[d];
    run((first * shape[last] + box.begin[last]) * inner_size, length);
    size_t d = last;
    while (d > 0 && ++index[d - 1] == box.end[d - 1]) {
      index[d - 1] = box.begin[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

}  // namespace

void read_box(const SafetensorsFile& file, const TensorView& tensor, const Box& box, float* out) {
  CLEAVE_CHECK(box.begin.size() == tensor.shape.size(), "box of ", box.begin.size(), " dims");
  for (size_t d = 0; d < tensor.shape.size(); ++d)
    CLEAVE_CHECK(box.begin[d] >= 0 && box.begin[d] <= box.end[d] && box.end[d] <= tensor.shape[d],
                 "dim ", d, ": [", box.begin[d], ", ", box.end[d], ") of ", tensor.shape[d]);
  if (box.num_elements() == 0) return;
  RunReader reader(file, tensor, out);
  for_each_run(tensor.shape, box, [&](int64_t first, int64_t count) { reader.add(first, count); });
  reader.flush();
}

void read_elements(const SafetensorsFile& file, const TensorView& tensor, int64_t first,
                   int64_t count, float* out) {
  CLEAVE_CHECK(first >= 0 && count >= 0 && first + count <= tensor.num_elements(), "elements [",
               first, ", ", first + count, ")");
  RunReader reader(file, tensor, out);
  if (count > 0) reader.add(first, count);
  reader.flush();
}

}  // namespace cleave
