#include "compress_fixture.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <limits>

#include "core/rank.h"
#include "support/tiny_run.h"

namespace cleave::test {

void on_data_ranks(int ranks, const std::function<void(Comm&)>& body) {
  const TemporaryFolder folder;
  RunConfig config = tiny_config(folder);
  config.train.global_batch_size = ranks * config.train.micro_batch_size;
  run_as_threads(ranks, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                            const std::function<void()>& on_failure) {
    run_as_rank(config, process, bootstrap, on_failure,
                [&](const TrainerContext& context, const SolvedPlan&) {
                  body(context.communicators.axis("data"));
                });
  });
}

Machines::Machines(Comm& comm, int ranks_per_machine) {
  if (ranks_per_machine == 1) return;
  const int machine = comm.rank() / ranks_per_machine, place = comm.rank() % ranks_per_machine;
  inner_ = comm.split(machine, place, "data.inner");
  outer_ = comm.split(place, machine, "data.outer");
}

std::vector<std::unique_ptr<Parameter>> make_parameters(const std::vector<int64_t>& sizes,
                                                        int first_index) {
  std::vector<std::unique_ptr<Parameter>> parameters;
  for (const int64_t size : sizes) {
    auto parameter = std::make_unique<Parameter>();
    parameter->index = first_index++;
    parameter->name = message("parameter ", parameter->index);
    parameter->shape = {size};
    parameter->value_placement.box = Box::whole({size});
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

namespace {

BucketLayout layout_of(const std::vector<std::unique_ptr<Parameter>>& parameters) {
  std::vector<Parameter*> order;
  for (const auto& parameter : parameters) order.push_back(parameter.get());
  return make_buckets(order, std::numeric_limits<int64_t>::max())[0];
}

std::vector<int64_t> counts_of(const GradientPart& part, int ranks) {
  return part.counts.empty() ? std::vector<int64_t>(ranks, part.layout.elements / ranks)
                             : part.counts;
}

}  // namespace

GradientBucket all_reduce_bucket(const std::vector<std::unique_ptr<Parameter>>& parameters) {
  return {ExchangeMode::all_reduce, {{layout_of(parameters)}}};
}

GradientBucket flat_bucket(const std::vector<std::unique_ptr<Parameter>>& parameters, int ranks) {
  GradientPart part{layout_of(parameters)};
  part.layout.elements = (part.layout.elements + ranks - 1) / ranks * ranks;
  return {ExchangeMode::reduce_scatter, {part}};
}

GradientBucket row_bucket(const std::vector<std::unique_ptr<Parameter>>& parameters, int ranks) {
  GradientBucket bucket{ExchangeMode::reduce_scatter, {}};
  for (const auto& parameter : parameters) {
    const int64_t size = parameter->shape[0], share = (size + ranks - 1) / ranks;
    GradientPart part{{{{parameter.get(), 0, size}}, size}};
    for (int64_t rank = 0; rank < ranks; ++rank)
      part.counts.push_back(std::min(size, (rank + 1) * share) - std::min(size, rank * share));
    bucket.parts.push_back(part);
  }
  return bucket;
}

std::vector<at::Tensor> random_gradients(const GradientBucket& bucket, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  std::vector<at::Tensor> gradients;
  for (const GradientPart& part : bucket.parts) {
    at::Tensor gradient = at::zeros({part.layout.elements});
    for (const BucketSlice& slice : part.layout.slices) {
      const at::Tensor width = at::pow(10.0, -at::arange(slice.elements, at::kFloat) / 700);
      gradient.narrow(0, slice.begin, slice.elements)
          .copy_(at::randn({slice.elements}, generator) * width);
    }
    gradients.push_back(gradient);
  }
  return gradients;
}

std::vector<at::Tensor> own_blocks(const GradientBucket& bucket,
                                   const std::vector<at::Tensor>& whole, int rank, int ranks) {
  if (bucket.mode == ExchangeMode::all_reduce) return whole;
  std::vector<at::Tensor> blocks;
  for (size_t i = 0; i < whole.size(); ++i) {
    const std::vector<int64_t> counts = counts_of(bucket.parts[i], ranks);
    int64_t begin = 0;
    for (int r = 0; r < rank; ++r) begin += counts[r];
    blocks.push_back(whole[i].narrow(0, begin, counts[rank]));
  }
  return blocks;
}

std::vector<at::Tensor> clones(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

}  // namespace cleave::test
