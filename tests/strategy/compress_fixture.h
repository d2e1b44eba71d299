// Buckets of gradients to exchange without a model, on ranks that are threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "cleave/gradient_exchange.h"
#include "int8_exchange.h"

namespace cleave::test {

/// Runs `body` on `ranks` ranks with their communicator along the data axis.
void on_data_ranks(int ranks, const std::function<void(Comm&)>& body);

/// A rank's communicators when machines have so many ranks each.
class Machines {
 public:
  Machines(Comm& comm, int ranks_per_machine);
  Int8Groups groups() const { return {inner_.get(), outer_.get()}; }

 private:
  std::unique_ptr<Comm> inner_, outer_;  // none where a machine has one rank
};

/// Parameters of these sizes, the first with index `first_index`.
std::vector<std::unique_ptr<Parameter>> make_parameters(const std::vector<int64_t>& sizes,
                                                        int first_index = 0);

/// One part, slices padded to 16 elements, as ddp has it.
GradientBucket all_reduce_bucket(const std::vector<std::unique_ptr<Parameter>>& parameters);
/// One part in equal blocks that cut parameters anywhere, as zero has it.
GradientBucket flat_bucket(const std::vector<std::unique_ptr<Parameter>>& parameters, int ranks);
/// A part for each parameter, in uneven blocks, as fsdp has it.
GradientBucket row_bucket(const std::vector<std::unique_ptr<Parameter>>& parameters, int ranks);

/// Normal values of a width that differs by element: blocks of the same parameter have different
/// scales. One tensor for each part; zero in the padding.
std::vector<at::Tensor> random_gradients(const GradientBucket& bucket, uint64_t seed);

/// This rank's blocks of `whole`, one tensor for each part; all of it for all_reduce.
std::vector<at::Tensor> own_blocks(const GradientBucket& bucket,
                                   const std::vector<at::Tensor>& whole, int rank, int ranks);

std::vector<at::Tensor> clones(const std::vector<at::Tensor>& tensors);

}  // namespace cleave::test
