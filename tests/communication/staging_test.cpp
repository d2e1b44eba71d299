// GPU memory by way of the host, over a fake of CUDA's runtime (fake_cudart): memory that only its
// copies may touch, and copies that are late.
#include <dlfcn.h>

#include <cstring>

#include "buffer.h"
#include "ranks.h"

namespace cleave::testing {
namespace {

using Staging = Ranks;

template <typename Function>
Function find(const char* name) {
  void* library = dlopen("libcudart.so.13", RTLD_NOW);
  return reinterpret_cast<Function>(dlsym(library, name));
}

/// Elements in the fake GPU's memory; filled and read by copies on the default stream.
class GpuBuffer {
 public:
  GpuBuffer(Communicator& c, cleave_dtype dtype, int64_t elements)
      : c_(c.get()), host_(dtype, elements), bytes_(static_cast<uint64_t>(host_.num_bytes())) {
    memory_ = c_->api->allocate(c_, bytes_, CLEAVE_CUDA);
  }
  ~GpuBuffer() { c_->api->deallocate(c_, memory_, bytes_, CLEAVE_CUDA); }
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;

  uint8_t* data(int64_t element = 0) {
    return static_cast<uint8_t*>(memory_) + (host_.data(element) - host_.data());
  }
  /// In stream order only: the copy has not happened when this returns.
  template <typename Value>
  void fill(Value&& value) {
    host_.fill(value);
    copy(memory_, host_.data(), 1);
  }
  template <typename Value>
  void expect(Value&& value, const char* what) {
    copy(host_.data(), memory_, 2);
    static const auto create = find<int (*)(void**, unsigned)>("cudaEventCreateWithFlags");
    static const auto record = find<int (*)(void*, void*)>("cudaEventRecord");
    static const auto query = find<int (*)(void*)>("cudaEventQuery");
    void* event = nullptr;
    create(&event, 0);
    record(event, nullptr);
    while (query(event) != 0) {
    }
    host_.expect(value, what);
  }

 private:
  void copy(void* to, const void* from, int kind) {
    static const auto memcpy_async =
        find<int (*)(void*, const void*, size_t, int, void*)>("cudaMemcpyAsync");
    ASSERT_EQ(memcpy_async(to, from, bytes_, kind, nullptr), 0);
  }

  cleave_communicator* c_;
  Buffer host_;
  uint64_t bytes_;
  void* memory_ = nullptr;
};

cleave_collective on_gpu(cleave_collective call) {
  call.device = CLEAVE_CUDA;
  return call;
}

// below one chunk, several chunks, an odd rest
constexpr int64_t kSizes[] = {1, 1'001, 2'500'003};

double value(int rank, int64_t i) {
  return (rank + 1.0) * static_cast<double>(i % 101);
}

TEST_P(Staging, IsOfferedWhereThereIsAGpu) {
  on_ranks([](Communicator& c) {
    EXPECT_EQ(c.capabilities().stream_ordered, 1u);
    for (int op = 0; op < CLEAVE_NUM_OPS; ++op)
      EXPECT_EQ(c.capabilities().dtypes[CLEAVE_CUDA][op], c.capabilities().dtypes[CLEAVE_CPU][op]);
    EXPECT_NE(c.describe().find("GPU memory staged"), std::string::npos) << c.describe();
  });
}

TEST_P(Staging, Reductions) {
  on_ranks([](Communicator& c) {
    const double ranks = c.size() * (c.size() + 1) / 2.0;
    for (const int64_t n : kSizes) {
      GpuBuffer in(c, CLEAVE_FLOAT32, n), out(c, CLEAVE_FLOAT32, n);
      in.fill([&](int64_t i) { return value(c.rank(), i); });
      auto call = on_gpu(collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, in.data(), out.data(), n));
      EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
      out.expect([&](int64_t i) { return ranks * static_cast<double>(i % 101); }, "all_reduce");
      call.recv = in.data();
      EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
      in.expect([&](int64_t i) { return ranks * static_cast<double>(i % 101); }, "in place");

      GpuBuffer blocks(c, CLEAVE_FLOAT32, n * c.size());
      blocks.fill([&](int64_t i) { return value(c.rank(), i); });
      EXPECT_EQ(c.run(on_gpu(collective(CLEAVE_REDUCE_SCATTER, CLEAVE_FLOAT32, blocks.data(),
                                        out.data(), n))),
                CLEAVE_OK)
          << c.error();
      out.expect([&](int64_t i) { return ranks * static_cast<double>((n * c.rank() + i) % 101); },
                 "reduce_scatter");
    }
  });
}

TEST_P(Staging, MovesOfUnevenBlocks) {
  on_ranks([](Communicator& c) {
    for (const int64_t n : kSizes) {
      std::vector<int64_t> counts(static_cast<size_t>(c.size()), n);
      counts.back() = n / 3;
      int64_t all = 0, before = 0;
      for (int rank = 0; rank < c.size(); ++rank) {
        if (rank == c.rank()) before = all;
        all += counts[static_cast<size_t>(rank)];
      }
      const int64_t own = counts[static_cast<size_t>(c.rank())];
      GpuBuffer in(c, CLEAVE_INT32, std::max<int64_t>(own, 1)), out(c, CLEAVE_INT32, all);
      in.fill([&](int64_t i) { return value(1, before + i); });
      auto call = on_gpu(collective(CLEAVE_ALL_GATHER, CLEAVE_INT32, in.data(), out.data(), 0));
      call.recv_counts = counts.data();
      EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
      out.expect([&](int64_t i) { return value(1, i); }, "all_gather");

      // this rank sends counts[peer] to each peer and so receives counts[its own] from each
      const std::vector<int64_t> incoming(counts.size(), own);
      GpuBuffer to_all(c, CLEAVE_INT32, all),
          from_all(c, CLEAVE_INT32, std::max<int64_t>(own * c.size(), 1));
      to_all.fill([&](int64_t i) { return value(c.rank(), i); });
      call = on_gpu(collective(CLEAVE_ALL_TO_ALL, CLEAVE_INT32, to_all.data(), from_all.data(), 0));
      call.send_counts = counts.data();
      call.recv_counts = incoming.data();
      EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
      if (own > 0)
        from_all.expect(
            [&](int64_t i) { return value(static_cast<int>(i / own), before + i % own); },
            "all_to_all");
    }
  });
}

TEST_P(Staging, BroadcastSendAndReceive) {
  on_ranks([](Communicator& c) {
    for (const int64_t n : kSizes) {
      GpuBuffer data(c, CLEAVE_FLOAT64, n);
      data.fill([&](int64_t i) { return value(c.rank(), i); });
      auto call = on_gpu(collective(CLEAVE_BROADCAST, CLEAVE_FLOAT64, nullptr, data.data(), n));
      call.peer = c.size() - 1;
      EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
      data.expect([&](int64_t i) { return value(c.size() - 1, i); }, "broadcast");

      GpuBuffer out(c, CLEAVE_FLOAT64, n), in(c, CLEAVE_FLOAT64, n);
      out.fill([&](int64_t i) { return value(c.rank(), i); });
      const int right = (c.rank() + 1) % c.size(), left = (c.rank() + c.size() - 1) % c.size();
      // more open receives than operations that may run at a time
      std::vector<Work> works;
      std::vector<std::unique_ptr<GpuBuffer>> more;
      for (int tag = 1; tag < 4; ++tag) {
        more.push_back(std::make_unique<GpuBuffer>(c, CLEAVE_FLOAT64, n));
        works.push_back(c.start(
            on_gpu(transfer(CLEAVE_RECV, CLEAVE_FLOAT64, more.back()->data(), n, left, tag))));
      }
      for (int tag = 1; tag < 4; ++tag)
        works.push_back(
            c.start(on_gpu(transfer(CLEAVE_SEND, CLEAVE_FLOAT64, out.data(), n, right, tag))));
      for (Work& work : works) EXPECT_EQ(work.wait(), CLEAVE_OK) << c.error();
      for (auto& received : more)
        received->expect([&](int64_t i) { return value(left, i); }, "recv");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, Staging, ::testing::ValuesIn(variants()));

}  // namespace
}  // namespace cleave::testing
