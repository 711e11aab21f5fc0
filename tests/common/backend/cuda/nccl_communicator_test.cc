// Groups of devices over a fake of NCCL: each rank is a thread with a backend of its own.
#include "common/backend/cuda/nccl_communicator.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/backend/cuda/cuda_backend.h"
#include "common/backend/cuda/cuda_device.h"
#include "tests/support/cuda_emulation/emulated_backend.h"
#include "tests/support/cuda_emulation/emulator.h"
#include "tests/support/cuda_emulation/fake_nccl.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A control of the fake library.
template <class Function>
Function* Control(const char* name) {
  void* const library = dlopen(FakeNcclFile().c_str(), RTLD_NOW);
  void* const control = library == nullptr ? nullptr : dlsym(library, name);
  if (control == nullptr) ADD_FAILURE() << name << ": " << dlerror();
  return reinterpret_cast<Function*>(control);
}
void FailNext(const char* call, ncclResult_t result) {
  Control<FakeNcclFailNext>("FakeNcclFailNext")(call, result);
}
void FailLater(ncclResult_t result) { Control<FakeNcclFailLater>("FakeNcclFailLater")(result); }

struct Rank {
  int rank = 0;
  Backend& backend;
  Communicator& group;

  std::unique_ptr<Buffer> Send(const std::vector<float>& host) const {
    auto buffer = backend.Allocate(host.size() * sizeof(float)).value();
    backend.CopyIn(buffer->data(), host.data(), host.size() * sizeof(float));
    return buffer;
  }
  std::vector<float> Read(Buffer& buffer, size_t count) const {
    std::vector<float> host(count);
    backend.CopyOut(host.data(), buffer.data(), count * sizeof(float));
    backend.Wait();
    return host;
  }
};

// Calls body for each rank on a thread of its own, which then leaves the group.
void RunRanks(int ranks, const std::function<void(const Rank&)>& body,
              std::vector<CudaBackendSettings> settings = {}) {
  settings.resize(static_cast<size_t>(ranks));
  std::vector<std::unique_ptr<Backend>> backends;
  cuda_emulation::SetDevices(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    CudaBackendSettings& own = settings[static_cast<size_t>(rank)];
    own.nccl = FakeNcclFile();
    ASSERT_TRUE(UseCudaDevice(rank).ok());
    backends.push_back(CreateCudaBackend(rank, nullptr, own).value());
  }
  const std::vector<std::byte> group = backends[0]->device()->NewGroup().value();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      cuda_emulation::SetDevices(ranks);
      Backend& backend = *backends[static_cast<size_t>(rank)];
      auto joined = backend.device()->JoinGroup(group, rank, ranks);
      ASSERT_TRUE(joined.ok()) << joined.status().message();
      const std::unique_ptr<Communicator> communicator = std::move(joined).value();
      body({rank, backend, *communicator});
    });
  }
  for (std::thread& thread : threads) thread.join();
  cuda_emulation::SetDevices(1);
}

// Values of a rank, the same wherever they are computed.
std::vector<float> ValuesOf(int rank, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}
std::vector<float> SumOf(int ranks, size_t count) {
  std::vector<float> sum = ValuesOf(0, count);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<float> values = ValuesOf(rank, count);
    for (size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

TEST(NcclCommunicator, AddsUpOverAllRanks) {
  for (const int ranks : {1, 2, 3}) {
    RunRanks(ranks, [&](const Rank& self) {
      EXPECT_EQ(self.group.rank(), self.rank);
      EXPECT_EQ(self.group.ranks(), ranks);
      for (const size_t count : {0, 1, 7, 1000}) {
        const auto buffer = self.Send(ValuesOf(self.rank, count + 1));
        self.group.AllReduce(buffer->floats(), count);
        std::vector<float> expected = SumOf(ranks, count);
        expected.push_back(ValuesOf(self.rank, count + 1).back());  // not part of it
        EXPECT_EQ(self.Read(*buffer, count + 1), expected);
      }
    });
  }
}

// Also where the last ranks have fewer columns or none, and where the rows do not fit into the
// memory of one transfer.
TEST(NcclCommunicator, GathersColumnsOnRankZero) {
  for (const int ranks : {1, 2, 4}) {
    RunRanks(ranks, [&](const Rank& self) {
      for (const auto& [rows, columns] :
           {std::pair{0, 3}, {1, 1}, {3, 5}, {2, 8}, {17, 10}, {90, 100'003}}) {
        if (rows == 90 && ranks != 2) continue;  // large
        const int width = (columns + ranks - 1) / ranks;
        const int begin = std::min(self.rank * width, columns);
        const int own = std::min(begin + width, columns) - begin;
        const auto value = [](int row, int column) {
          return static_cast<float>(row) + static_cast<float>(column) / 131072.f;
        };
        std::vector<float> mine, expected;
        for (int row = 0; row < rows; ++row) {
          for (int i = 0; i < own; ++i) mine.push_back(value(row, begin + i));
          for (int i = 0; i < columns; ++i) expected.push_back(value(row, i));
        }
        const auto sent = self.Send(mine);
        const auto all = self.Send(std::vector<float>(expected.size(), -1.f));
        self.group.GatherColumns(sent->floats(), rows, columns,
                                 self.rank == 0 ? all->floats() : nullptr);
        const std::vector<float> got = self.Read(*all, expected.size());
        if (self.rank == 0) {
          EXPECT_TRUE(got == expected) << rows << " rows of " << columns;
        } else {
          EXPECT_TRUE(got == std::vector<float>(expected.size(), -1.f));
        }
      }
    });
  }
}

constexpr int kWidth = 8;
constexpr AttentionShape kPassShape = {
    .num_heads = 1, .num_kv_heads = 1, .head_dim = kWidth, .page_tokens = 16};

// A pass of one row: token t is embedded as t, each rank multiplies it by its rank + 1, the sum is
// multiplied again, and rank 0 has both columns of all ranks.
class Pass {
 public:
  explicit Pass(const Rank& self) : self_(self) {
    std::vector<float> table(100 * kWidth, 0.f), factor(kWidth * kWidth, 0.f);
    for (size_t token = 0; token < 100; ++token) table[token * kWidth] = static_cast<float>(token);
    factor[0] = static_cast<float>(self.rank + 1);
    table_ = Pack(table, 100, WeightType::kF32);
    factor_ = Pack(factor, kWidth, WeightType::kBf16);
    last_ =
        Pack(std::vector<float>(factor.begin(), factor.begin() + 2 * kWidth), 2, WeightType::kBf16);
    x_ = self_.Send(std::vector<float>(kWidth));
    sum_ = self_.Send(std::vector<float>(kWidth));
    mine_ = self_.Send(std::vector<float>(2));
    all_ = self_.Send(std::vector<float>(static_cast<size_t>(2 * self_.group.ranks())));
  }

  // Returns what was gathered.
  std::vector<float> Run(TokenId token) {
    const std::vector<int32_t> zero = {0}, begin = {0, 1};
    const BatchLayout layout = {.rows = 1,
                                .sequences = 1,
                                .tokens = &token,
                                .positions = zero.data(),
                                .slots = zero.data(),
                                .row_begin = begin.data(),
                                .context = zero.data(),
                                .page_begin = begin.data(),
                                .pages = zero.data()};
    Backend& backend = self_.backend;
    const int columns = 2 * self_.group.ranks();
    backend.device()->RunPass(layout, kPassShape, KvType::kF32, [&] {
      backend.Embed(*table_, &token, 1, x_->floats());
      backend.MatMul(*factor_, x_->floats(), 1, nullptr, false, sum_->floats());
      self_.group.AllReduce(sum_->floats(), kWidth);
      backend.MatMul(*last_, sum_->floats(), 1, nullptr, false, mine_->floats());
      self_.group.GatherColumns(mine_->floats(), 1, columns,
                                self_.rank == 0 ? all_->floats() : nullptr);
    });
    return self_.Read(*all_, static_cast<size_t>(columns));
  }
  std::vector<float> Expected(TokenId token) const {
    const int ranks = self_.group.ranks();
    const int sum = token * (ranks * (ranks + 1) / 2);
    std::vector<float> expected(static_cast<size_t>(2 * ranks), 0.f);
    for (int rank = 0; rank < ranks && self_.rank == 0; ++rank) {
      expected[static_cast<size_t>(2 * rank)] = static_cast<float>(sum * (rank + 1));
    }
    return expected;
  }

 private:
  std::unique_ptr<PackedMatrix> Pack(const std::vector<float>& values, int64_t rows,
                                     WeightType type) const {
    return self_.backend.Pack(TensorView{values.data(), Dtype::kF32, {rows, kWidth}}, type).value();
  }

  const Rank& self_;
  std::unique_ptr<PackedMatrix> table_, factor_, last_;
  std::unique_ptr<Buffer> x_, sum_, mine_, all_;
};

TEST(NcclCommunicator, OperationsArePartOfGraphs) {
  for (const bool late : {false, true}) {
    RunRanks(3, [&](const Rank& self) {
      cuda_emulation::SetLate(late);
      Pass pass(self);
      for (TokenId token = 3; token < 10; ++token) {
        EXPECT_EQ(pass.Run(token), pass.Expected(token)) << "rank " << self.rank;
      }
      EXPECT_EQ(self.backend.device()->graph_counts().captures, 1);
      EXPECT_EQ(self.backend.device()->graph_counts().launches, 5);
      cuda_emulation::SetLate(false);
    });
    // Leaving the group has dropped the graphs, or the library would have complained.
    EXPECT_EQ(cuda_emulation::LiveGraphs(), 0);
  }
}

// A product must not read the rounded copy of one rank's part.
TEST(NcclCommunicator, SumsReplaceRoundedCopies) {
  RunRanks(2, [](const Rank& self) {
    const std::vector<float> ones(kWidth, 1.f);
    std::vector<float> eye(kWidth * kWidth, 0.f);
    for (size_t i = 0; i < kWidth; ++i) eye[i * kWidth + i] = 1.f;
    const auto matrix =
        self.backend.Pack({eye.data(), Dtype::kF32, {kWidth, kWidth}}, WeightType::kBf16).value();
    const auto x = self.Send(ones), gain = self.Send(ones), y = self.Send(ones);
    self.backend.RmsNorm(x->floats(), gain->floats(), 1, kWidth, kWidth, 0.f, false, x->floats(),
                         Consumers::kAny);
    self.group.AllReduce(x->floats(), kWidth);
    self.backend.MatMul(*matrix, x->floats(), 1, nullptr, false, y->floats());
    EXPECT_EQ(self.Read(*y, kWidth), std::vector<float>(kWidth, 2.f));
  });
}

// What one rank alone frees or picks does not make it capture again.
TEST(NcclCommunicator, RanksCaptureAlikeWhenOnePicks) {
  RunRanks(2, [](const Rank& self) {
    constexpr int kVocab = 40'000;
    const auto logits = self.Send(std::vector<float>(kVocab));
    Pass pass(self);
    for (TokenId token = 0; token < 8; ++token) {
      EXPECT_EQ(pass.Run(token), pass.Expected(token));
      if (self.rank != 0) continue;
      PickBatch batch;
      batch.BeginSequence({});
      const int count = token < 4 ? 1 : kVocab;
      batch.AddRow({.count = count, .allowed = kVocab},
                   std::vector<TokenId>(static_cast<size_t>(count) * 10));
      self.backend.Draft(batch, logits->floats(), kVocab);
    }
    EXPECT_EQ(self.backend.device()->graph_counts().captures, 1);
  });
}

std::unique_ptr<Backend> Alone(const std::string& library) {
  return CreateEmulatedCudaBackend({.nccl = library}).value();
}
std::unique_ptr<Communicator> JoinAlone(Backend& backend) {
  const std::vector<std::byte> group = backend.device()->NewGroup().value();
  return backend.device()->JoinGroup(group, 0, 1).value();
}

TEST(NcclErrors, SayThatLibraryIsMissing) {
  for (const auto& [file, message] :
       {std::pair{"libnccl_of_no_machine.so.2", "install it (libnccl2)"},
        {"libm.so.6", "NCCL 2.13 or later is needed"}}) {
    const auto backend = Alone(file);
    const auto group = backend->device()->NewGroup();
    ASSERT_FALSE(group.ok());
    EXPECT_EQ(group.status().code(), Code::kFailedPrecondition);
    EXPECT_THAT(group.status().message(), AllOf(HasSubstr(file), HasSubstr(message)));
    const auto joined = backend->device()->JoinGroup(std::vector<std::byte>(128), 0, 1);
    EXPECT_EQ(joined.status().message(), group.status().message());
  }
}

TEST(NcclErrors, JoiningChecksGroupAndRank) {
  const auto backend = Alone(FakeNcclFile());
  const std::vector<std::byte> group = backend->device()->NewGroup().value();
  const auto message = [&](std::span<const std::byte> id, int rank, int ranks) {
    const auto joined = backend->device()->JoinGroup(id, rank, ranks);
    EXPECT_EQ(joined.status().code(), Code::kInvalidArgument);
    return joined.status().message();
  };
  EXPECT_THAT(message(std::span(group).first(127), 0, 2), HasSubstr("127 bytes"));
  EXPECT_THAT(message(group, 2, 2), HasSubstr("no rank 2 in a group of 2"));
  EXPECT_THAT(message(group, -1, 2), HasSubstr("no rank -1"));
}

TEST(NcclErrors, JoiningSaysWhatFailed) {
  const auto backend = Alone(FakeNcclFile());
  for (const char* call : {"ncclCommInitRank", "ncclAllReduce"}) {
    const std::vector<std::byte> group = backend->device()->NewGroup().value();
    FailNext(call, ncclSystemError);
    const auto joined = backend->device()->JoinGroup(group, 0, 1);
    ASSERT_FALSE(joined.ok());
    EXPECT_EQ(joined.status().code(), Code::kFailedPrecondition);
    EXPECT_THAT(joined.status().message(),
                AllOf(HasSubstr("rank 0 of 1: unhandled system error (told to fail " +
                                std::string(call) + ")"),
                      HasSubstr("NCCL_DEBUG=WARN")));
  }
  FailNext("ncclGetUniqueId", ncclSystemError);
  EXPECT_THAT(backend->device()->NewGroup().status().message(), HasSubstr("NCCL_SOCKET_IFNAME"));
  FailLater(ncclRemoteError);  // found while the first operation is waited for
  const auto joined = backend->device()->JoinGroup(backend->device()->NewGroup().value(), 0, 1);
  FailLater(ncclSuccess);
  EXPECT_THAT(joined.status().message(), HasSubstr("remote process exited"));
}

TEST(NcclErrors, TwoRanksOnOneDevice) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (int rank = 0; rank < 2; ++rank) backends.push_back(Alone(FakeNcclFile()));
  const std::vector<std::byte> group = backends[0]->device()->NewGroup().value();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto joined = backends[static_cast<size_t>(rank)]->device()->JoinGroup(group, rank, 2);
      ASSERT_FALSE(joined.ok());
      EXPECT_THAT(joined.status().message(),
                  AllOf(HasSubstr("Duplicate GPU detected"), HasSubstr("a device of its own")));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(NcclErrors, LaterOnesEndTheProcess) {
  const auto backend = Alone(FakeNcclFile());
  const auto group = JoinAlone(*backend);
  const auto values = backend->Allocate(kWidth * sizeof(float)).value();
  EXPECT_DEATH(
      {
        FailNext("ncclAllReduce", ncclInternalError);
        group->AllReduce(values->floats(), kWidth);
      },
      "NCCL, adding up: internal error");
  EXPECT_DEATH(
      {
        FailLater(ncclRemoteError);
        backend->Wait();
      },
      "NCCL, waiting for the other ranks: remote process exited");
  float outside[kWidth] = {};
  EXPECT_DEATH(group->AllReduce(outside, kWidth), "not device memory");
}

// Errors show while the stream still has work, however long that takes.
TEST(NcclErrors, WaitNoticesThemBeforeTheEnd) {
  const auto backend = Alone(FakeNcclFile());
  const auto group = JoinAlone(*backend);
  const auto values = backend->Allocate(kWidth * sizeof(float)).value();
  cuda_emulation::SetLate(true);
  group->AllReduce(values->floats(), kWidth);
  EXPECT_DEATH(
      {
        FailLater(ncclRemoteError);
        backend->Wait();
      },
      "NCCL, waiting for the other ranks");
  backend->Wait();
  cuda_emulation::SetLate(false);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

// The other ranks would wait for the operations of their graphs.
TEST(NcclErrors, FailedCaptureEndsTheProcess) {
  const auto backend = Alone(FakeNcclFile());
  const auto group = JoinAlone(*backend);
  const Rank self = {0, *backend, *group};
  Pass pass(self);
  for (TokenId token = 0; token < 2; ++token) EXPECT_EQ(pass.Run(token), pass.Expected(token));
  EXPECT_DEATH(
      {
        FailNext("ncclAllReduce", ncclInternalError);
        pass.Run(2);
      },
      "CUDA graphs of a group of ranks: NCCL, adding up: internal error.*--cuda-graphs false");
  EXPECT_EQ(pass.Run(2), pass.Expected(2));
}

// The fake refuses what makes NCCL hang.
TEST(NcclErrors, RanksMustCaptureTheSame) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // ranks are threads
  EXPECT_DEATH(RunRanks(2,
                        [](const Rank& self) {
                          Pass pass(self);
                          for (TokenId token = 0; token < 4; ++token) pass.Run(token);
                        },
                        {{.graphs = true}, {.graphs = false}}),
               "an operation is captured on some ranks");
}

TEST(NcclErrors, RanksMustAgreeOnSizes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // ranks are threads
  EXPECT_DEATH(RunRanks(2,
                        [](const Rank& self) {
                          const auto values = self.Send(std::vector<float>(kWidth));
                          self.group.AllReduce(values->floats(),
                                               static_cast<size_t>(self.rank + 1));
                        }),
               "ranks differ in their counts");
}

}  // namespace
}  // namespace outrider
