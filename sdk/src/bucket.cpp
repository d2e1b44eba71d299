#include "cleave/bucket.h"

namespace cleave {

namespace {

int64_t padded(int64_t elements) {
  return (elements + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
}

}  // namespace

std::vector<BucketLayout> make_buckets(const std::vector<Parameter*>& order, int64_t bucket_bytes) {
  const int64_t limit = bucket_bytes / static_cast<int64_t>(sizeof(float));
  std::vector<BucketLayout> buckets;
  for (Parameter* parameter : order) {
    const int64_t elements = parameter->value_placement.box.num_elements();
    if (buckets.empty() ||
        (!buckets.back().slices.empty() && buckets.back().elements + elements > limit))
      buckets.emplace_back();
    BucketLayout& bucket = buckets.back();
    bucket.slices.push_back({parameter, bucket.elements, elements});
    bucket.elements += padded(elements);
  }
  return buckets;
}

void bind_slices(const BucketLayout& layout, const at::Tensor& flat,
                 at::Tensor Parameter::*member) {
  for (const BucketSlice& slice : layout.slices) {
    const auto shape = slice.parameter->value_placement.box.shape();
    slice.parameter->*member =
        flat.narrow(0, slice.begin, slice.elements).view(at::IntArrayRef(shape));
  }
}

at::Tensor allocate_bucket(const BucketLayout& layout, Comm& comm, at::Device device) {
  at::Tensor flat = comm.allocate(layout.elements, at::kFloat, device);
  flat.zero_();
  bind_slices(layout, flat, &Parameter::gradient);
  return flat;
}

}  // namespace cleave
