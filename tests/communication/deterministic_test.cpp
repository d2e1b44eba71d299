// A backend that was told to be deterministic sums each element in one order, whatever the size:
// each machine's ranks in their order, then the machines' sums.
#include "buffer.h"
#include "ranks.h"

namespace cleave::testing {
namespace {

using Deterministic = Ranks;

/// Values whose sum depends on the order.
float value(int rank, int64_t element) {
  return (1.0f + static_cast<float>(element % 97)) * (rank % 2 ? 1e-3f : 1e4f) /
         (3.0f + static_cast<float>(rank));
}

/// The same in bfloat16: large ones that cancel out, and what float32 keeps of the small ones
/// beside them.
float short_value(int rank, int64_t element) {
  if (rank % 2 == 0) return rank % 4 == 0 ? 0x1p20f : -0x1p20f;
  return from_bfloat16(round_to_bfloat16(0.3 * rank + 0.07 * static_cast<double>(element % 13)));
}

using Value = float (*)(int rank, int64_t element);

float sum_of_machine(Value value, int first, int end, int64_t element) {
  float sum = value(first, element);
  for (int rank = first + 1; rank < end; ++rank) sum += value(rank, element);
  return sum;
}

float sum_in_order(Value value, int ranks, int64_t element) {
  const int per_machine = ranks_per_machine(ranks);
  float sum = sum_of_machine(value, 0, per_machine, element);
  for (int first = per_machine; first < ranks; first += per_machine)
    sum += sum_of_machine(value, first, first + per_machine, element);
  return sum;
}

bool applies(const Variant& variant) {
  return variant.deterministic || backend_name() == "local";
}

struct Terms {
  cleave_dtype dtype;
  Value value;

  double sum(int ranks, int64_t element) const {
    const float in_order = sum_in_order(value, ranks, element);
    return dtype == CLEAVE_BFLOAT16 ? from_bfloat16(round_to_bfloat16(in_order)) : in_order;
  }
};
constexpr Terms kTerms[] = {{CLEAVE_FLOAT32, value}, {CLEAVE_BFLOAT16, short_value}};

TEST_P(Deterministic, AllReduceSumsInOneOrderAtAnySizeAndPlace) {
  if (!applies(GetParam())) return;
  on_ranks([](Communicator& c) {
    for (const Terms& terms : kTerms)
      for (const int64_t n : {1, 100, 5'000, 40'001, 300'007}) {
        Buffer data(terms.dtype, n);
        data.fill([&](int64_t i) { return terms.value(c.rank(), i); });
        EXPECT_EQ(c.run(collective(CLEAVE_ALL_REDUCE, terms.dtype, data.data(), data.data(), n)),
                  CLEAVE_OK)
            << c.error();
        data.expect([&](int64_t i) { return terms.sum(c.size(), i); }, "all_reduce");
      }
  });
}

TEST_P(Deterministic, ReduceScatterSumsInOneOrderAtAnySizeAndPlace) {
  if (!applies(GetParam())) return;
  on_ranks([](Communicator& c) {
    for (const Terms& terms : kTerms)
      for (const int64_t n : {1, 1'000, 70'001}) {
        Buffer in(terms.dtype, n * c.size());
        Buffer out(terms.dtype, n);
        in.fill([&](int64_t i) { return terms.value(c.rank(), i); });
        EXPECT_EQ(c.run(collective(CLEAVE_REDUCE_SCATTER, terms.dtype, in.data(), out.data(), n)),
                  CLEAVE_OK)
            << c.error();
        out.expect([&](int64_t i) { return terms.sum(c.size(), n * c.rank() + i); },
                   "reduce_scatter");
      }
  });
}

INSTANTIATE_TEST_SUITE_P(, Deterministic, ::testing::ValuesIn(variants()));

}  // namespace
}  // namespace cleave::testing
