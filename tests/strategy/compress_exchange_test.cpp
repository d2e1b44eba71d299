// What compressed exchanges make of gradients, without a model.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>

#include "bf16_exchange.h"
#include "block_codec.h"
#include "compress_fixture.h"
#include "int8_exchange.h"
#include "support/tiny_run.h"

namespace cleave {
namespace {

using test::clones;
using Tensors = std::vector<at::Tensor>;
using Parameters = std::vector<std::unique_ptr<Parameter>>;

// Primes, less than a block, exactly one, several; nothing at all.
const std::vector<int64_t> kSizes = {1009, 7, 256, 0, 3001, 1, 512, 97};
constexpr int64_t kBlock = 256;
constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

enum class Kind { all_reduce, flat, rows };
constexpr Kind kKinds[] = {Kind::all_reduce, Kind::flat, Kind::rows};

GradientBucket bucket_of(Kind kind, const Parameters& parameters, int ranks) {
  if (kind == Kind::all_reduce) return test::all_reduce_bucket(parameters);
  return kind == Kind::flat ? test::flat_bucket(parameters, ranks)
                            : test::row_bucket(parameters, ranks);
}

Tensors outputs_for(const GradientBucket& bucket, const Tensors& inputs, int rank, int ranks) {
  return bucket.mode == ExchangeMode::all_reduce
             ? inputs
             : clones(test::own_blocks(bucket, inputs, rank, ranks));
}

at::Tensor sum_of(const std::vector<Tensors>& terms, size_t part) {
  at::Tensor sum = at::zeros_like(terms[0][part], at::kDouble);
  for (const Tensors& term : terms) sum += term[part].to(at::kDouble);
  return sum;
}

// The largest magnitude of each element's block, counted from the parameter's first element.
at::Tensor block_maxima(const GradientPart& part, const at::Tensor& values) {
  at::Tensor maxima = at::zeros_like(values, at::kDouble);
  for (const BucketSlice& slice : part.layout.slices)
    for (int64_t begin = 0; begin < slice.elements; begin += kBlock) {
      const int64_t n = std::min(kBlock, slice.elements - begin);
      const at::Tensor block = values.narrow(0, slice.begin + begin, n);
      maxima.narrow(0, slice.begin + begin, n).fill_(block.abs().max().to(at::kDouble));
    }
  return maxima;
}

// Each quantisation errs by half a scale, 1/254 of its block's largest: all machines' gradients,
// and of all_reduce the sum, which itself is off by the others. The rest is float32's.
at::Tensor int8_bound(const GradientBucket& bucket, const std::vector<Tensors>& terms,
                      size_t part) {
  const auto ranks = static_cast<double>(terms.size());
  at::Tensor largest = at::zeros_like(terms[0][part], at::kDouble);
  for (const Tensors& term : terms) largest += block_maxima(bucket.parts[part], term[part]);
  at::Tensor bound = largest / 254;
  if (bucket.mode == ExchangeMode::all_reduce)
    bound += (block_maxima(bucket.parts[part], sum_of(terms, part)) + largest / 254) / 254;
  return bound * (1 + 1e-5) + largest * (ranks + 2) * kEpsilon;
}

// What each machine's ranks have together.
std::vector<Tensors> sums_of_machines(const std::vector<Tensors>& terms, int ranks_per_machine) {
  std::vector<Tensors> sums;
  for (size_t rank = 0; rank < terms.size(); ++rank)
    if (rank % ranks_per_machine == 0)
      sums.push_back(clones(terms[rank]));
    else
      for (size_t part = 0; part < terms[rank].size(); ++part)
        sums.back()[part] += terms[rank][part];
  return sums;
}

struct World {
  int ranks, ranks_per_machine;
};
void PrintTo(const World& world, std::ostream* out) {
  *out << world.ranks << " ranks, " << world.ranks_per_machine << " a machine";
}

class ExchangeRanks : public testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ExchangeRanks,
                         testing::Values(World{2, 1}, World{3, 1}, World{4, 1}, World{8, 1},
                                         World{4, 2}, World{6, 3}, World{8, 2}, World{2, 2}));

TEST_P(ExchangeRanks, Int8SumIsWithinHalfAScalePerQuantisation) {
  const auto [ranks, ranks_per_machine] = GetParam();
  const Parameters parameters = test::make_parameters(kSizes);
  for (const Kind kind : kKinds) {
    const GradientBucket bucket = bucket_of(kind, parameters, ranks);
    std::vector<Tensors> terms;
    for (int rank = 0; rank < ranks; ++rank)
      terms.push_back(test::random_gradients(bucket, 100 + rank));
    const std::vector<Tensors> sent = sums_of_machines(terms, ranks_per_machine);
    test::on_data_ranks(ranks, [&, ranks = ranks, each = ranks_per_machine](Comm& comm) {
      const test::Machines machines(comm, each);
      Int8Exchange exchange({kBlock, true}, at::kCPU, machines.groups());
      const int id = exchange.add_bucket(bucket, comm);
      const Tensors inputs = clones(terms[comm.rank()]);
      const Tensors outputs = outputs_for(bucket, inputs, comm.rank(), ranks);
      exchange.start(id, outputs, inputs);
      exchange.finish(id);
      for (size_t part = 0; part < outputs.size(); ++part) {
        const auto own = [&](const at::Tensor& whole) {
          return test::own_blocks({bucket.mode, {bucket.parts[part]}}, {whole}, comm.rank(),
                                  ranks)[0];
        };
        const at::Tensor error = (outputs[part].to(at::kDouble) - own(sum_of(terms, part))).abs();
        EXPECT_TRUE((error <= own(int8_bound(bucket, sent, part))).all().item<bool>())
            << "kind " << static_cast<int>(kind) << ", part " << part << ", worst "
            << (error - own(int8_bound(bucket, sent, part))).max().item<double>();
      }
    });
  }
}

TEST_P(ExchangeRanks, Int8AllReduceGivesAllRanksTheSameBits) {
  const auto [ranks, ranks_per_machine] = GetParam();
  const Parameters parameters = test::make_parameters(kSizes);
  const GradientBucket bucket = test::all_reduce_bucket(parameters);
  std::vector<at::Tensor> results(ranks);
  test::on_data_ranks(ranks, [&, each = ranks_per_machine](Comm& comm) {
    const test::Machines machines(comm, each);
    Int8Exchange exchange({kBlock, true}, at::kCPU, machines.groups());
    const int id = exchange.add_bucket(bucket, comm);
    for (int step = 0; step < 3; ++step) {
      const Tensors gradients = test::random_gradients(bucket, 10 * step + comm.rank());
      exchange.start(id, gradients, gradients);
      exchange.finish(id);
      results[comm.rank()] = gradients[0];
    }
  });
  for (const at::Tensor& result : results) EXPECT_TRUE(test::bitwise_equal(result, results[0]));
}

// What was exchanged in all steps, and what is kept, is what there was to exchange, and what rank 0
// had from a checkpoint of another number of ranks. Of a reduce_scatter a machine's ranks have
// equal residuals, which count once.
TEST_P(ExchangeRanks, ErrorFeedbackLosesNothingOverTheSteps) {
  const auto [ranks, ranks_per_machine] = GetParam();
  constexpr int steps = 20;
  const Parameters parameters = test::make_parameters(kSizes);
  for (const Kind kind : kKinds) {
    const GradientBucket bucket = bucket_of(kind, parameters, ranks);
    std::mutex mutex;
    Tensors exchanged, given, magnitude;
    for (const GradientPart& part : bucket.parts)
      for (Tensors* total : {&exchanged, &given, &magnitude})
        total->push_back(at::zeros({part.layout.elements}, at::kDouble));
    test::on_data_ranks(ranks, [&, ranks = ranks, each = ranks_per_machine](Comm& comm) {
      const test::Machines machines(comm, each);
      Int8Exchange exchange({kBlock, true}, at::kCPU, machines.groups());
      const int id = exchange.add_bucket(bucket, comm);
      const Tensors left = test::random_gradients(bucket, 7);
      const auto left_of = [&](size_t part, const BucketSlice& slice) {
        return left[part].narrow(0, slice.begin, slice.elements);
      };
      const bool is_equal = bucket.mode == ExchangeMode::reduce_scatter;
      if (comm.rank() < (is_equal ? each : 1)) {
        std::lock_guard lock(mutex);
        for (size_t part = 0; part < left.size(); ++part) {
          if (comm.rank() == 0) given[part] += left[part].to(at::kDouble);
          if (comm.rank() == 0) magnitude[part] += left[part].abs().to(at::kDouble);
          for (const BucketSlice& slice : bucket.parts[part].layout.slices)
            if (slice.elements > 0) exchange.residual(*slice.parameter).copy_(left_of(part, slice));
        }
      }
      for (int step = 0; step < steps; ++step) {
        const Tensors gradients = test::random_gradients(bucket, 1000 * step + comm.rank());
        const Tensors inputs = clones(gradients);
        const Tensors outputs = outputs_for(bucket, inputs, comm.rank(), ranks);
        exchange.start(id, outputs, inputs);
        exchange.finish(id);
        std::lock_guard lock(mutex);
        for (size_t part = 0; part < gradients.size(); ++part) {
          given[part] += gradients[part].to(at::kDouble);
          magnitude[part] += gradients[part].abs().to(at::kDouble);
        }
        if (bucket.mode == ExchangeMode::all_reduce && comm.rank() > 0) continue;  // equal copies
        Tensors targets = test::own_blocks(bucket, exchanged, comm.rank(), ranks);
        for (size_t part = 0; part < outputs.size(); ++part)
          targets[part] += outputs[part].to(at::kDouble);
      }
      int64_t num_unsent = 0;
      std::lock_guard lock(mutex);
      for (size_t part = 0; part < bucket.parts.size(); ++part)
        for (const BucketSlice& slice : bucket.parts[part].layout.slices)
          if (slice.elements > 0) {
            const at::Tensor kept = exchange.residual(*slice.parameter);
            num_unsent += (kept == left_of(part, slice)).sum().item<int64_t>();
            if (!is_equal || comm.rank() % each == 0)
              exchanged[part].narrow(0, slice.begin, slice.elements) += kept.to(at::kDouble);
          }
      EXPECT_LE(num_unsent, 2) << "what the checkpoint brought";  // they may be equal by chance
    });
    // each step rounds x + residual, the sums and the errors once: a few units in the last place of
    // what is in the block
    for (size_t part = 0; part < given.size(); ++part) {
      const at::Tensor bound = block_maxima(bucket.parts[part], magnitude[part]) * 8 * kEpsilon;
      EXPECT_TRUE(((exchanged[part] - given[part]).abs() <= bound).all().item<bool>())
          << "kind " << static_cast<int>(kind) << ", part " << part << ", worst "
          << ((exchanged[part] - given[part]).abs() / bound).max().item<double>();
      EXPECT_FALSE(at::equal(exchanged[part], given[part]) && given[part].numel() > 1000);
    }
  }
}

TEST_P(ExchangeRanks, Bf16SumIsTheRoundedSumOfRoundedTerms) {
  const int ranks = GetParam().ranks;
  const Parameters parameters = test::make_parameters(kSizes);
  for (const Kind kind : kKinds) {
    const GradientBucket bucket = bucket_of(kind, parameters, ranks);
    std::vector<Tensors> terms;
    for (int rank = 0; rank < ranks; ++rank)
      terms.push_back(test::random_gradients(bucket, 200 + rank));
    test::on_data_ranks(ranks, [&](Comm& comm) {
      Bf16Exchange exchange(at::kCPU);
      const int id = exchange.add_bucket(bucket, comm);
      const Tensors inputs = clones(terms[comm.rank()]);
      const Tensors outputs = outputs_for(bucket, inputs, comm.rank(), ranks);
      exchange.start(id, outputs, inputs);
      exchange.finish(id);
      for (size_t part = 0; part < outputs.size(); ++part) {
        at::Tensor sum = at::zeros_like(terms[0][part]);
        for (const Tensors& term : terms) sum += term[part].to(at::kBFloat16).to(at::kFloat);
        const at::Tensor expected =
            test::own_blocks({bucket.mode, {bucket.parts[part]}},
                             {sum.to(at::kBFloat16).to(at::kFloat)}, comm.rank(), ranks)[0];
        EXPECT_TRUE(test::bitwise_equal(outputs[part], expected))
            << "kind " << static_cast<int>(kind) << ", part " << part;
      }
    });
  }
}

TEST_P(ExchangeRanks, WhatIsNotFiniteReachesEveryRank) {
  const auto [ranks, ranks_per_machine] = GetParam();
  const Parameters parameters = test::make_parameters(kSizes);
  const GradientBucket bucket = test::all_reduce_bucket(parameters);
  for (const float bad : {NAN, INFINITY, -INFINITY, std::numeric_limits<float>::max()})
    test::on_data_ranks(ranks, [&, each = ranks_per_machine](Comm& comm) {
      const test::Machines machines(comm, each);
      Int8Exchange int8({kBlock, true}, at::kCPU, machines.groups());
      Bf16Exchange bf16(at::kCPU);
      for (GradientExchange* exchange :
           {static_cast<GradientExchange*>(&int8), static_cast<GradientExchange*>(&bf16)}) {
        const int id = exchange->add_bucket(bucket, comm);
        const Tensors gradients = test::random_gradients(bucket, comm.rank());
        // finite terms whose sum is not count too
        if (comm.rank() == 1 || bad == std::numeric_limits<float>::max())
          gradients[0][777].fill_(bad);
        exchange->start(id, gradients, gradients);
        exchange->finish(id);
        EXPECT_FALSE(std::isfinite(gradients[0].square().sum().item<float>())) << bad;
      }
    });
}

// Buckets that overlap, and are finished in another order, are what each is alone.
TEST_P(ExchangeRanks, OverlappingBucketsAreWhatEachIsAlone) {
  const auto [ranks, ranks_per_machine] = GetParam();
  constexpr int num_buckets = 7;
  const Parameters parameters = test::make_parameters(kSizes);
  for (const bool is_int8 : {true, false})
    for (const Kind kind : kKinds) {
      const GradientBucket bucket = bucket_of(kind, parameters, ranks);
      test::on_data_ranks(ranks, [&, ranks = ranks, each = ranks_per_machine](Comm& comm) {
        const test::Machines machines(comm, each);
        const Int8Groups groups = machines.groups();
        Int8Exchange int8({kBlock, true}, at::kCPU, groups),
            int8_alone({kBlock, true}, at::kCPU, groups);
        Bf16Exchange bf16(at::kCPU), bf16_alone(at::kCPU);
        const auto choose = [&](Int8Exchange& a, Bf16Exchange& b) -> GradientExchange& {
          if (is_int8) return a;
          return b;
        };
        GradientExchange& exchange = choose(int8, bf16);
        GradientExchange& alone = choose(int8_alone, bf16_alone);
        for (int i = 0; i < num_buckets; ++i) {
          exchange.add_bucket(bucket, comm);
          alone.add_bucket(bucket, comm);
        }
        std::vector<Tensors> inputs, outputs;
        for (int i = 0; i < num_buckets; ++i) {
          inputs.push_back(test::random_gradients(bucket, 50 * i + comm.rank()));
          outputs.push_back(outputs_for(bucket, inputs[i], comm.rank(), ranks));
          const Tensors own_inputs = clones(inputs[i]);
          const Tensors own_outputs = outputs_for(bucket, own_inputs, comm.rank(), ranks);
          alone.start(i, own_outputs, own_inputs);
          alone.finish(i);
          exchange.start(i, outputs[i], inputs[i]);
          inputs[i] = own_outputs;  // what is expected
        }
        for (const int i : {3, 6, 0, 5, 1, 2, 4, 4}) exchange.finish(i);
        for (int i = 0; i < num_buckets; ++i)
          for (size_t part = 0; part < outputs[i].size(); ++part)
            EXPECT_TRUE(test::bitwise_equal(outputs[i][part], inputs[i][part])) << i;
      });
    }
}

// Ranks of a tensor axis hold equal copies of a norm beside matrices of which they hold different
// parts: its gradient must stay equal.
TEST_P(ExchangeRanks, ParametersBitsDoNotDependOnTheirNeighbours) {
  const auto [ranks, ranks_per_machine] = GetParam();
  const Parameters narrow = test::make_parameters({130, 1000, 613}),
                   wide = test::make_parameters({4001, 1000, 17}),
                   norm = test::make_parameters({1000}, 1);
  for (const Kind kind : kKinds) {
    const GradientBucket in_narrow = bucket_of(kind, narrow, ranks),
                         in_wide = bucket_of(kind, wide, ranks);
    std::mutex mutex;
    std::vector<Tensors> wholes(2);
    test::on_data_ranks(ranks, [&, ranks = ranks, each = ranks_per_machine](Comm& comm) {
      const test::Machines machines(comm, each);
      Tensors shared_steps;
      for (int step = 0; step < 5; ++step)
        shared_steps.push_back(
            test::random_gradients(test::all_reduce_bucket(norm), 10 * step + comm.rank())[0]);
      for (int which = 0; which < 2; ++which) {
        const GradientBucket& bucket = which == 0 ? in_narrow : in_wide;
        Int8Exchange exchange({kBlock, true}, at::kCPU, machines.groups());
        const int id = exchange.add_bucket(bucket, comm);
        for (int step = 0; step < 5; ++step) {
          const Tensors inputs = test::random_gradients(bucket, 70 + step);
          const size_t part = kind == Kind::rows ? 1 : 0;
          const int64_t begin = kind == Kind::rows ? 0 : bucket.parts[0].layout.slices[1].begin;
          inputs[part].narrow(0, begin, 1000).copy_(shared_steps[step].narrow(0, 0, 1000));
          const Tensors outputs = outputs_for(bucket, inputs, comm.rank(), ranks);
          exchange.start(id, outputs, inputs);
          exchange.finish(id);
          std::lock_guard lock(mutex);
          if (wholes[which].empty()) wholes[which] = clones(inputs);
          Tensors targets = test::own_blocks(bucket, wholes[which], comm.rank(), ranks);
          for (size_t i = 0; i < outputs.size(); ++i) targets[i].copy_(outputs[i]);
        }
      }
    });
    const size_t part = kind == Kind::rows ? 1 : 0;
    const auto of = [&](const GradientBucket& bucket, const Tensors& whole) {
      const int64_t begin = kind == Kind::rows ? 0 : bucket.parts[0].layout.slices[1].begin;
      return whole[part].narrow(0, begin, 1000);
    };
    EXPECT_TRUE(test::bitwise_equal(of(in_narrow, wholes[0]), of(in_wide, wholes[1])))
        << static_cast<int>(kind);
  }
}

TEST(Int8Exchange, TinyValuesAreKeptForLater) {
  const Parameters parameters = test::make_parameters({300});
  const GradientBucket bucket = test::all_reduce_bucket(parameters);
  test::on_data_ranks(2, [&](Comm& comm) {
    Int8Exchange exchange({kBlock, true}, at::kCPU);
    const int id = exchange.add_bucket(bucket, comm);
    const Tensors gradients = {at::full({304}, 1e-38f)};
    exchange.start(id, gradients, gradients);
    exchange.finish(id);
    EXPECT_EQ(gradients[0].narrow(0, 0, 300).abs().max().item<float>(), 0);
    EXPECT_TRUE(at::equal(exchange.residual(*parameters[0]), at::full({300}, 1e-38f)));
  });
}

// Devices without loops of their own.
TEST(BlockCodec, TensorOperationsGiveTheSameBitsAsTheLoops) {
  constexpr int kRanks = 6;
  const Parameters parameters = test::make_parameters(kSizes);
  for (const int inner_ranks : {1, 2})
    for (const Kind kind : kKinds) {
      const GradientBucket bucket = bucket_of(kind, parameters, kRanks);
      const WireLayout layout(bucket, kRanks, kBlock, inner_ranks);
      Tensors bytes, sums, residuals;
      for (const BlockCodec* codec : {&kCpuCodec, &kTensorCodec}) {
        const Tensors gradients = test::random_gradients(bucket, 5);
        at::Tensor residual = at::full({layout.elements}, 1e-3f);
        at::Tensor wire = at::zeros({layout.total_bytes}, at::kByte);
        codec->encode(layout, inner_ranks - 1, gradients, residual, wire);
        bytes.push_back(wire.clone());
        for (int rank = 0; rank < kRanks; ++rank) {
          const int owner = layout.owner_of(rank);
          const at::Tensor received =
              wire.narrow(0, layout.chunk_begins[owner], layout.chunk_bytes[owner])
                  .repeat({layout.outer_ranks()});
          Tensors outputs = outputs_for(bucket, clones(gradients), rank, kRanks);
          codec->sum(layout, owner, received, outputs);
          if (kind == Kind::all_reduce) {
            codec->encode_sum(layout, owner, outputs, residual, wire);
            codec->decode(layout, wire, outputs);
          }
          for (const at::Tensor& output : outputs) sums.push_back(output);
        }
        residuals.push_back(residual);
        bytes.push_back(wire);
      }
      EXPECT_TRUE(at::equal(bytes[0], bytes[2]) && at::equal(bytes[1], bytes[3]));
      EXPECT_TRUE(test::bitwise_equal(residuals[0], residuals[1]));
      for (size_t i = 0; i < sums.size() / 2; ++i)
        EXPECT_TRUE(test::bitwise_equal(sums[i], sums[i + sums.size() / 2])) << i;
    }
}

}  // namespace
}  // namespace cleave
