#include "cleave/gradient_exchange.h"

namespace cleave {

int ExactExchange::add_bucket(const GradientBucket& bucket, Comm& comm) {
  Bucket added{bucket.mode, {}, &comm, {}};
  for (const GradientPart& part : bucket.parts) added.counts.push_back(part.counts);
  buckets_.push_back(std::move(added));
  return static_cast<int>(buckets_.size()) - 1;
}

void ExactExchange::start(int bucket, std::span<const at::Tensor> outputs,
                          std::span<const at::Tensor> inputs) {
  Bucket& started = buckets_[bucket];
  Comm& comm = *started.comm;
  const auto sum = [&](size_t part) {
    if (started.mode == ExchangeMode::all_reduce) return comm.all_reduce(inputs[part]);
    const std::vector<int64_t>& counts = started.counts[part];
    return counts.empty() ? comm.reduce_scatter(outputs[part], inputs[part])
                          : comm.reduce_scatter_v(outputs[part], inputs[part], counts);
  };
  if (inputs.size() == 1) {
    started.works.push_back(sum(0));
    return;
  }
  comm.group_begin();
  for (size_t part = 0; part < inputs.size(); ++part) started.works.push_back(sum(part));
  comm.group_end();
}

void ExactExchange::finish(int bucket) {
  for (Work& work : buckets_[bucket].works) work.wait();
  buckets_[bucket].works.clear();
}

}  // namespace cleave
