#include "core/initialize.h"

#include <ATen/Parallel.h>
#include <ATen/core/PhiloxRNGEngine.h>

#include <cmath>
#include <numbers>

#include "cleave/error.h"

namespace cleave {

namespace {

// FNV-1a: stable over compilers and versions, unlike std::hash.
uint64_t hash_name(const std::string& name) {
  uint64_t hash = 14695981039346656037ull;
  for (unsigned char c : name) hash = (hash ^ c) * 1099511628211ull;
  return hash;
}

// Two normal values (Box-Muller) from the counter `pair`; u1 lies in (0, 1].
void normal_pair(uint64_t key, uint64_t pair, double* out) {
  at::Philox4_32 engine(key, /*subsequence=*/pair, /*offset=*/0);
  const uint64_t a = (static_cast<uint64_t>(engine()) << 32) | engine();
  const uint64_t b = (static_cast<uint64_t>(engine()) << 32) | engine();
  const double u1 = ((a >> 11) + 1) * 0x1p-53;
  const double u2 = (b >> 11) * 0x1p-53;
  const double radius = std::sqrt(-2.0 * std::log(u1));
  out[0] = radius * std::cos(2.0 * std::numbers::pi * u2);
  out[1] = radius * std::sin(2.0 * std::numbers::pi * u2);
}

// `count` consecutive values that begin at global element `first`.
void fill_run(float* out, int64_t first, int64_t count, uint64_t key, double standard_deviation) {
  double pair[2];
  for (int64_t i = first; i < first + count; ++i) {
    if (i == first || i % 2 == 0) normal_pair(key, i / 2, pair);
    out[i - first] = static_cast<float>(standard_deviation * pair[i % 2]);
  }
}

// Global index of the first element of row `row` of the box; a row runs along the last dim.
int64_t first_element(int64_t row, const std::vector<int64_t>& shape, const Box& box) {
  const size_t dims = shape.size();
  int64_t index = box.begin[dims - 1];
  int64_t stride = shape[dims - 1];
  for (size_t d = dims - 1; d-- > 0;) {
    const int64_t extent = box.end[d] - box.begin[d];
    index += (box.begin[d] + row % extent) * stride;
    row /= extent;
    stride *= shape[d];
  }
  return index;
}

}  // namespace

WeightSource random_weights(uint64_t seed, double standard_deviation) {
  return [=](const Parameter& parameter, Init init, const Box& box, at::Tensor& out) {
    if (init == Init::normal)
      fill_normal(out, parameter.name, parameter.shape, box, seed, standard_deviation);
    else
      out.fill_(init == Init::ones ? 1.0 : 0.0);
  };
}

WeightSource folder_weights(std::shared_ptr<const WeightFolder> folder) {
  return [folder = std::move(folder)](const Parameter& parameter, Init, const Box& box,
                                      at::Tensor& out) {
    folder->read(parameter.name, box, out.data_ptr<float>());
  };
}

void fill_normal(at::Tensor& out, const std::string& name, const std::vector<int64_t>& shape,
                 const Box& box, uint64_t seed, double standard_deviation) {
  CLEAVE_CHECK(out.is_contiguous() && out.numel() == box.num_elements(), name);
  if (out.numel() == 0) return;
  const uint64_t key = hash_name(name) ^ (seed * 0x9e3779b97f4a7c15ull);
  const int64_t length = box.end.back() - box.begin.back();
  const int64_t rows = out.numel() / length;
  float* data = out.data_ptr<float>();
  at::parallel_for(0, rows, std::max<int64_t>(1, 4096 / length), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      fill_run(data + row * length, first_element(row, shape, box), length, key,
               standard_deviation);
  });
}

}  // namespace cleave
