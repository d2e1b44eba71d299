// The table that backend.cpp generates, over a backend that only records.
#include "cleave/backend.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "cleave/error.h"

namespace cleave {
namespace {

class FakeOperation final : public Operation {
 public:
  explicit FakeOperation(cleave_status status) : status_(status) {}
  cleave_status poll() override { return status_; }
  cleave_status wait_host() override { return status_; }
  cleave_status wait_stream(void*) override { throw std::logic_error("not stream-ordered"); }
  std::string error() const override { return "the link is down"; }

 private:
  cleave_status status_;
};

class FakeBackend final : public Backend {
 public:
  int rank() const override { return 1; }
  int size() const override { return 3; }
  cleave_capabilities capabilities() const override {
    cleave_capabilities capabilities = cpu_capabilities();
    capabilities.dtypes[CLEAVE_CPU][CLEAVE_ALL_REDUCE] = 1u << CLEAVE_FLOAT32;
    return capabilities;
  }
  const std::string& describe() const override { return name_; }
  const char* algorithm(cleave_op, cleave_dtype, int64_t bytes, cleave_device) const override {
    return bytes < 100 ? "short" : "long";
  }
  double network_bytes(cleave_op, cleave_dtype, int64_t bytes, cleave_device) const override {
    return static_cast<double>(3 * bytes);
  }
  std::unique_ptr<Operation> submit(const cleave_collective& call) override {
    if (call.tag == 13) throw std::runtime_error("unlucky tag");
    return std::make_unique<FakeOperation>(call.tag == 7 ? CLEAVE_FAILED : CLEAVE_OK);
  }
  void group_begin() override {}
  void group_end() override {}
  std::unique_ptr<Backend> split(int, int) override { throw RuntimeError("split: no peers"); }
  void* allocate(uint64_t, cleave_device) override { throw std::bad_alloc(); }
  void deallocate(void*, uint64_t, cleave_device) override {}
  void abort() noexcept override {}
  void finalize() override { throw ConfigError("finalize: too early"); }

 private:
  std::string name_ = "fake";
};

class BackendTable : public ::testing::Test {
 protected:
  ~BackendTable() override { c_->api->destroy(c_); }

  int32_t submit(const cleave_collective& call) {
    cleave_work* work = nullptr;
    const int32_t status = c_->api->submit(c_, &call, &work);
    if (work) c_->api->work_release(work);
    return status;
  }
  std::string error() { return c_->api->error(c_); }

  cleave_collective call(cleave_op op, int64_t count) {
    cleave_collective call{};
    call.struct_size = sizeof call;
    call.op = op;
    call.send = data_;
    call.recv = data_ + 32;
    call.count = count;
    return call;
  }

  float data_[64] = {};
  cleave_communicator* c_ = to_c(std::make_unique<FakeBackend>());
};

TEST_F(BackendTable, ExceptionsBecomeStatusAndText) {
  cleave_collective send = call(CLEAVE_SEND, 1);
  send.tag = 13;
  EXPECT_EQ(submit(send), CLEAVE_FAILED);
  EXPECT_EQ(error(), "unlucky tag");
  cleave_communicator* child = nullptr;
  EXPECT_EQ(c_->api->split(c_, 0, 0, &child), CLEAVE_FAILED);
  EXPECT_EQ(error(), "split: no peers");
  EXPECT_EQ(c_->api->finalize(c_), CLEAVE_INVALID);
  EXPECT_EQ(error(), "finalize: too early");
  EXPECT_EQ(c_->api->allocate(c_, 8, CLEAVE_CPU), nullptr);
}

TEST_F(BackendTable, FailedWorkExplainsItself) {
  cleave_collective send = call(CLEAVE_SEND, 1);
  send.tag = 7;
  cleave_work* work = nullptr;
  ASSERT_EQ(c_->api->submit(c_, &send, &work), CLEAVE_OK);
  EXPECT_EQ(c_->api->work_wait_host(work), CLEAVE_FAILED);
  EXPECT_EQ(error(), "the link is down");
  c_->api->work_release(work);
}

TEST_F(BackendTable, WaitStreamBlocksWithoutStreams) {
  const cleave_collective send = call(CLEAVE_SEND, 1);
  cleave_work* work = nullptr;
  ASSERT_EQ(c_->api->submit(c_, &send, &work), CLEAVE_OK);
  EXPECT_EQ(c_->api->work_wait_stream(work, nullptr), CLEAVE_OK);
  c_->api->work_release(work);
}

TEST_F(BackendTable, RefusesWhatTheCapabilitiesExclude) {
  cleave_collective reduce = call(CLEAVE_ALL_REDUCE, 2);
  EXPECT_EQ(submit(reduce), CLEAVE_OK);
  reduce.dtype = CLEAVE_INT32;
  EXPECT_EQ(submit(reduce), CLEAVE_UNSUPPORTED);
  EXPECT_NE(error().find("all_reduce of int32 on cpu is not supported by fake"), std::string::npos);
}

TEST_F(BackendTable, NamesNoAlgorithmForWhatItCanNotDo) {
  const auto name = [&](int32_t op, int32_t dtype, int64_t bytes, int32_t device) {
    return c_->api->algorithm(c_, op, dtype, bytes, device);
  };
  EXPECT_STREQ(name(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, 99, CLEAVE_CPU), "short");
  EXPECT_STREQ(name(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, 100, CLEAVE_CPU), "long");
  EXPECT_EQ(name(CLEAVE_ALL_REDUCE, CLEAVE_INT32, 99, CLEAVE_CPU), nullptr);
  EXPECT_NE(error().find("not supported by fake"), std::string::npos) << error();
  EXPECT_EQ(name(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, 99, CLEAVE_CUDA), nullptr);
  EXPECT_EQ(name(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, -1, CLEAVE_CPU), nullptr);
  EXPECT_EQ(name(CLEAVE_NUM_OPS, CLEAVE_FLOAT32, 99, CLEAVE_CPU), nullptr);
  EXPECT_EQ(name(CLEAVE_BROADCAST, CLEAVE_NUM_DTYPES, 99, CLEAVE_CPU), nullptr);
}

TEST_F(BackendTable, KnowsNoNetworkBytesOfWhatItCanNotDo) {
  const auto bytes = [&](int32_t op, int32_t dtype, int64_t bytes, int32_t device) {
    return c_->api->network_bytes(c_, op, dtype, bytes, device);
  };
  EXPECT_EQ(bytes(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, 100, CLEAVE_CPU), 300);
  EXPECT_LT(bytes(CLEAVE_ALL_REDUCE, CLEAVE_INT32, 100, CLEAVE_CPU), 0);
  EXPECT_LT(bytes(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, -1, CLEAVE_CPU), 0);
  EXPECT_LT(bytes(CLEAVE_NUM_OPS, CLEAVE_FLOAT32, 100, CLEAVE_CPU), 0);
}

TEST_F(BackendTable, RefusesBrokenArguments) {
  EXPECT_EQ(submit(call(CLEAVE_ALL_GATHER, -4)), CLEAVE_INVALID);
  EXPECT_EQ(submit(call(CLEAVE_ALL_GATHER, INT64_MAX / 2)), CLEAVE_INVALID);  // 3 ranks
  EXPECT_EQ(submit(call(CLEAVE_BROADCAST, INT64_MAX / 3)), CLEAVE_INVALID);   // bytes

  const int64_t negative[] = {1, -2, 3};
  cleave_collective gather = call(CLEAVE_ALL_GATHER, 1);
  gather.recv_counts = negative;
  EXPECT_EQ(submit(gather), CLEAVE_INVALID);
  EXPECT_NE(error().find("recv_counts[1] is -2"), std::string::npos) << error();

  cleave_collective exchange = call(CLEAVE_ALL_TO_ALL, 1);
  exchange.recv = data_;
  EXPECT_EQ(submit(exchange), CLEAVE_INVALID);
  exchange = call(CLEAVE_ALL_TO_ALL, 1);
  exchange.recv_counts = negative;
  EXPECT_EQ(submit(exchange), CLEAVE_INVALID);

  cleave_collective missing = call(CLEAVE_SEND, 1);
  missing.send = nullptr;
  EXPECT_EQ(submit(missing), CLEAVE_INVALID);
  missing.count = 0;
  EXPECT_EQ(submit(missing), CLEAVE_OK);

  cleave_collective peer = call(CLEAVE_RECV, 1);
  peer.peer = 3;
  EXPECT_EQ(submit(peer), CLEAVE_INVALID);
  EXPECT_NE(error().find("peer 3 is not a rank of 3"), std::string::npos) << error();

  cleave_collective old = call(CLEAVE_BARRIER, 0);
  old.struct_size -= 8;
  EXPECT_EQ(submit(old), CLEAVE_INVALID);
}

}  // namespace
}  // namespace cleave
