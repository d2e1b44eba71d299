// Buffers that the communicator allocated: the ranks of a machine read and write each other's.
#include <algorithm>
#include <cstring>
#include <memory>

#include "cleave/backend.h"
#include "cleave/error.h"
#include "ranks.h"

namespace cleave::testing {
namespace {

using SharedMemory = Ranks;

/// Float32 of the communicator's own memory, or of this process's alone.
class Floats {
 public:
  Floats(Communicator& c, int64_t elements, bool is_own)
      : c_(c.get()), elements_(elements), own_(is_own ? 0 : elements, -1.0f) {
    if (!is_own) return;
    shared_ = static_cast<float*>(c_->api->allocate(c_, bytes(), CLEAVE_CPU));
    std::fill(shared_, shared_ + elements, -1.0f);
  }
  ~Floats() {
    if (shared_) c_->api->deallocate(c_, shared_, bytes(), CLEAVE_CPU);
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  float* data() { return shared_ ? shared_ : own_.data(); }
  float& operator[](int64_t i) { return data()[i]; }
  void expect(const char* what, const std::function<float(int64_t)>& value) {
    for (int64_t i = 0; i < elements_; ++i)
      if (data()[i] != value(i)) {
        ADD_FAILURE() << what << " of " << elements_ << ": element " << i << " is " << data()[i]
                      << ", expected " << value(i);
        return;
      }
  }

 private:
  uint64_t bytes() const { return static_cast<uint64_t>(elements_) * sizeof(float); }
  cleave_communicator* c_;
  int64_t elements_;
  std::vector<float> own_;
  float* shared_ = nullptr;
};

// small lanes, one chunk, several chunks; no multiples of anything
constexpr int64_t kSizes[] = {5, 2'500, 50'021, 400'009};

float whole(int rank, int64_t i) {
  return static_cast<float>((rank + 1) * (i % 1'013));
}

float sum(int ranks, int64_t i) {
  return static_cast<float>(ranks * (ranks + 1) / 2 * (i % 1'013));
}

/// All of the ranks' buffers are the communicator's; all of them but the last rank's; none.
void with_buffers(Communicator& c, const std::function<void(bool send, bool recv, int64_t n)>& f) {
  const bool is_last = c.rank() == c.size() - 1;
  for (const int64_t n : kSizes) {
    f(true, true, n);
    f(!is_last, true, n);
    f(true, !is_last, n);
    f(false, false, n);
  }
}

TEST_P(SharedMemory, AllReduceInPlaceAndNot) {
  on_ranks([](Communicator& c) {
    with_buffers(c, [&](bool send, bool recv, int64_t n) {
      Floats in(c, n, send), out(c, n, recv);
      for (int64_t i = 0; i < n; ++i) in[i] = whole(c.rank(), i);
      const auto call = collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, in.data(), out.data(), n);
      EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
      out.expect("all_reduce", [&](int64_t i) { return sum(c.size(), i); });
      in.expect("input", [&](int64_t i) { return whole(c.rank(), i); });
      const auto in_place = collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, in.data(), in.data(), n);
      EXPECT_EQ(c.run(in_place), CLEAVE_OK) << c.error();
      in.expect("all_reduce in place", [&](int64_t i) { return sum(c.size(), i); });
    });
  });
}

TEST_P(SharedMemory, ReduceScatterInPlaceAndNot) {
  on_ranks([](Communicator& c) {
    with_buffers(c, [&](bool send, bool recv, int64_t n) {
      Floats in(c, n * c.size(), send), out(c, n, recv);
      const auto fill = [&] {
        for (int64_t i = 0; i < n * c.size(); ++i) in[i] = whole(c.rank(), i);
      };
      const auto expected = [&](int64_t i) { return sum(c.size(), n * c.rank() + i); };
      fill();
      auto call = collective(CLEAVE_REDUCE_SCATTER, CLEAVE_FLOAT32, in.data(), out.data(), n);
      EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
      out.expect("reduce_scatter", expected);
      fill();
      call.recv = in.data() + n * c.rank();
      EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
      for (int64_t i = 0; i < n; ++i) out[i] = in[n * c.rank() + i];
      out.expect("reduce_scatter in place", expected);
    });
  });
}

TEST_P(SharedMemory, AllGatherInPlaceAndNotWithUnevenBlocks) {
  on_ranks([](Communicator& c) {
    with_buffers(c, [&](bool send, bool recv, int64_t n) {
      std::vector<int64_t> counts(static_cast<size_t>(c.size()), n);
      counts.front() = 0;  // a rank without any
      if (c.size() > 2) counts.back() = n / 2;
      int64_t all = 0, before = 0;
      for (int rank = 0; rank < c.size(); ++rank) {
        if (rank < c.rank()) before += counts[static_cast<size_t>(rank)];
        all += counts[static_cast<size_t>(rank)];
      }
      const int64_t own = counts[static_cast<size_t>(c.rank())];
      Floats in(c, own, send), out(c, all, recv);
      for (int64_t i = 0; i < own; ++i) in[i] = whole(1, before + i);
      auto call = collective(CLEAVE_ALL_GATHER, CLEAVE_FLOAT32, in.data(), out.data(), 0);
      call.recv_counts = counts.data();
      EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
      out.expect("all_gather", [&](int64_t i) { return whole(1, i); });
      for (int64_t i = 0; i < all; ++i) out[i] = i >= before && i < before + own ? out[i] : -2;
      call.send = out.data() + before;
      EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
      out.expect("all_gather in place", [&](int64_t i) { return whole(1, i); });
    });
  });
}

TEST_P(SharedMemory, BroadcastFromEveryRank) {
  on_ranks([](Communicator& c) {
    with_buffers(c, [&](bool, bool recv, int64_t n) {
      for (int root = 0; root < c.size(); ++root) {
        Floats data(c, n, recv);
        if (c.rank() == root)
          for (int64_t i = 0; i < n; ++i) data[i] = whole(root, i);
        auto call = collective(CLEAVE_BROADCAST, CLEAVE_FLOAT32, nullptr, data.data(), n);
        call.peer = root;
        EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
        data.expect("broadcast", [&](int64_t i) { return whole(root, i); });
      }
    });
  });
}

TEST_P(SharedMemory, AllToAll) {
  on_ranks([](Communicator& c) {
    with_buffers(c, [&](bool send, bool recv, int64_t n) {
      Floats in(c, n * c.size(), send), out(c, n * c.size(), recv);
      for (int64_t i = 0; i < n * c.size(); ++i) in[i] = whole(c.rank(), i);
      const auto call = collective(CLEAVE_ALL_TO_ALL, CLEAVE_FLOAT32, in.data(), out.data(), n);
      EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
      out.expect("all_to_all",
                 [&](int64_t i) { return whole(static_cast<int>(i / n), n * c.rank() + i % n); });
    });
  });
}

// Numbers come back to the same lanes: more open operations than lanes, small and large in turn.
TEST_P(SharedMemory, ManyOpenOperationsKeepApart) {
  on_ranks([](Communicator& c) {
    constexpr int kWorks = 40;
    std::vector<std::unique_ptr<Floats>> data;
    std::vector<Work> works;
    for (int k = 0; k < kWorks; ++k) {
      const int64_t n = k % 4 == 0 ? 30'011 + k : 7 + k;
      data.push_back(std::make_unique<Floats>(c, n, k % 3 != 0));
      for (int64_t i = 0; i < n; ++i) (*data.back())[i] = whole(c.rank(), i + k);
      works.push_back(c.start(collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.back()->data(),
                                         data.back()->data(), n)));
    }
    for (int k = kWorks - 1; k >= 0; --k) {
      EXPECT_EQ(works[static_cast<size_t>(k)].wait(), CLEAVE_OK) << c.error();
      data[static_cast<size_t>(k)]->expect("all_reduce",
                                           [&](int64_t i) { return sum(c.size(), i + k); });
    }
  });
}

TEST_P(SharedMemory, ATimeoutNamesTheRankThatIsMissing) {
  if (std::string(GetParam().algorithm) != "auto") return;
  on_ranks([](Communicator& c) {
    const std::string path = c.describe();
    const bool is_shared = path.find("shared memory") != std::string::npos &&
                           path.find("network") == std::string::npos;
    if (!is_shared) return;
    for (const int64_t n : {7, 50'000}) {
      Communicator child(c.split(0, c.rank()));
      const int missing = c.size() - 1;
      // static: after a failure the buffer belongs to the backend until the end
      static thread_local std::vector<float> data(50'000);
      if (c.rank() != missing) {
        auto call = collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.data(), data.data(), n);
        call.timeout_ms = 100;
        EXPECT_EQ(child.run(call), CLEAVE_TIMED_OUT);
        // perhaps after others that are late
        for (const std::string& part :
             {std::string("waits for rank "), std::to_string(missing) + ";"})
          EXPECT_NE(child.error().find(part), std::string::npos) << child.error();
      }
      c.barrier();
    }
  });
}

TEST_P(SharedMemory, ATimeoutInAPartOfTheRanksNamesTheRankOfAll) {
  if (std::string(GetParam().algorithm) != "auto") return;
  on_ranks([](Communicator& c) {
    if (c.size() < 4) return;
    Communicator odd_or_even(c.split(c.rank() % 2, c.rank()));
    const int missing = odd_or_even.size() - 1, of_all = 2 * missing + c.rank() % 2;
    static thread_local std::vector<float> data(7);
    if (odd_or_even.rank() != missing) {
      auto call = collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.data(), data.data(), 7);
      call.timeout_ms = 100;
      EXPECT_EQ(odd_or_even.run(call), CLEAVE_TIMED_OUT);
      const std::string expected = message(missing, " (rank ", of_all, " of all)");
      EXPECT_NE(odd_or_even.error().find(expected), std::string::npos) << odd_or_even.error();
    }
    c.barrier();
  });
}

TEST_P(SharedMemory, FreedMemoryIsHandedOutAgain) {
  on_ranks([](Communicator& c) {
    cleave_communicator* raw = c.get();
    void* first = raw->api->allocate(raw, 1 << 20, CLEAVE_CPU);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
    raw->api->deallocate(raw, first, 1 << 20, CLEAVE_CPU);
    void* second = raw->api->allocate(raw, 1 << 20, CLEAVE_CPU);
    if (c.describe().find("shared memory") != std::string::npos) {
      EXPECT_EQ(second, first);
    }
    raw->api->deallocate(raw, second, 1 << 20, CLEAVE_CPU);
  });
}

INSTANTIATE_TEST_SUITE_P(, SharedMemory, ::testing::ValuesIn(variants()));

}  // namespace
}  // namespace cleave::testing
