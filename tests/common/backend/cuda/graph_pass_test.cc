// Passes of the backend as graphs: memory that moves, passes that are too large, side effects of a
// pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/backend/cuda/cuda_batch.h"
#include "common/backend/cuda/graph_rows.h"
#include "tests/support/cuda_emulation/emulated_backend.h"
#include "tests/support/cuda_emulation/emulator.h"

namespace outrider {
namespace {

constexpr int kWidth = 8;
constexpr AttentionShape kPassShape = {
    .num_heads = 1, .num_kv_heads = 1, .head_dim = kWidth, .page_tokens = 16};

// A batch of one chain whose ops are an embedding and a product: row r of the result is twice the
// token of row r.
class GraphPass : public ::testing::Test {
 protected:
  GraphPass() {
    std::vector<float> table(1000 * kWidth, 0.f);
    for (size_t token = 0; token < 1000; ++token) {
      table[token * kWidth] = static_cast<float>(token % 256);  // representable in bf16
    }
    std::vector<float> twice(kWidth * kWidth, 0.f);
    for (size_t i = 0; i < kWidth; ++i) twice[i * kWidth + i] = 2.f;
    table_ = backend_->Pack({table.data(), Dtype::kF32, {1000, kWidth}}, WeightType::kF32).value();
    twice_ =
        backend_->Pack({twice.data(), Dtype::kF32, {kWidth, kWidth}}, WeightType::kBf16).value();
    embedded_ = backend_->Allocate(400 * kWidth * sizeof(float)).value();
    out_ = backend_->Allocate(400 * kWidth * sizeof(float)).value();
    backend_->Wait();
  }

  // Enqueues a pass of `rows` rows with consecutive tokens from `first` on. The sequence has
  // `pages` pages.
  void Enqueue(int rows, TokenId first, int pages = 1) {
    const auto count = static_cast<size_t>(rows);
    tokens_.resize(count);
    std::iota(tokens_.begin(), tokens_.end(), first);
    positions_.resize(count);
    std::iota(positions_.begin(), positions_.end(), 0);
    slots_ = positions_;
    const std::vector<int32_t> row_begin = {0, rows}, context = {0}, page_begin = {0, pages};
    const std::vector<int32_t> page(static_cast<size_t>(pages), 0);
    const BatchLayout layout = {.rows = rows,
                                .sequences = 1,
                                .tokens = tokens_.data(),
                                .positions = positions_.data(),
                                .slots = slots_.data(),
                                .row_begin = row_begin.data(),
                                .context = context.data(),
                                .page_begin = page_begin.data(),
                                .pages = page.data()};
    backend_->device()->RunPass(layout, kPassShape, KvType::kF32, [&] {
      ++calls_;
      backend_->Embed(*table_, tokens_.data(), rows, embedded_->floats());
      if (in_pass_) in_pass_();
      backend_->MatMul(*twice_, embedded_->floats(), rows, nullptr, false, out_->floats());
    });
  }
  // The first value of each row after such a pass.
  std::vector<float> Run(int rows, TokenId first, int pages = 1) {
    Enqueue(rows, first, pages);
    const auto count = static_cast<size_t>(rows);
    std::vector<float> values(count * kWidth), firsts;
    backend_->CopyOut(values.data(), out_->data(), values.size() * sizeof(float));
    backend_->Wait();
    for (size_t r = 0; r < count; ++r) firsts.push_back(values[r * kWidth]);
    return firsts;
  }
  static std::vector<float> Expected(int rows, TokenId first) {
    std::vector<float> values;
    for (int r = 0; r < rows; ++r) values.push_back(static_cast<float>(2 * ((first + r) % 256)));
    return values;
  }
  int64_t captures() const { return backend_->device()->graph_counts().captures; }
  int64_t launches() const { return backend_->device()->graph_counts().launches; }

  std::vector<std::string> warnings_;
  const std::unique_ptr<Backend> backend_ =
      CreateEmulatedCudaBackend({.warn = [this](const std::string& warning) {
        warnings_.push_back(warning);
      }}).value();
  std::unique_ptr<PackedMatrix> table_, twice_;
  std::unique_ptr<Buffer> embedded_, out_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_, slots_;
  std::function<void()> in_pass_;
  int calls_ = 0;
};

TEST_F(GraphPass, ReplaysReadTheirOwnArrays) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(Run(3, 10 * i), Expected(3, 10 * i)) << i;
    ASSERT_EQ(Run(4, 7 * i), Expected(4, 7 * i)) << i;
  }
  EXPECT_EQ(calls_, 6);
  EXPECT_EQ(captures(), 2);
  EXPECT_EQ(launches(), 16);
}

// Pinned memory that a copy still reads is not overwritten before somebody waits.
TEST_F(GraphPass, StreamsMayBeLate) {
  cuda_emulation::SetLate(true);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Run(5, 20 * i), Expected(5, 20 * i)) << i;
  EXPECT_EQ(launches(), 8);
  cuda_emulation::SetLate(false);
}

TEST_F(GraphPass, SeveralMayBeUnderWay) {
  cuda_emulation::SetLate(true);
  const auto host = backend_->AllocateHost(4 * kWidth * sizeof(float)).value();
  for (int i = 0; i < 5; ++i) {
    for (int pass = 0; pass < 4; ++pass) {
      Enqueue(1, 50 * i + pass);
      backend_->CopyOut(host->floats() + pass * kWidth, out_->data(), kWidth * sizeof(float));
    }
    backend_->Wait();
    for (int pass = 0; pass < 4; ++pass) {
      EXPECT_EQ(host->floats()[pass * kWidth], static_cast<float>(2 * (50 * i + pass)));
    }
  }
  EXPECT_EQ(launches(), 18);
  cuda_emulation::SetLate(false);
}

// The block of a pass's arrays is 1 MiB at first.
TEST_F(GraphPass, AreDroppedWhenTheirArraysMove) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(Run(2, i), Expected(2, i));
  EXPECT_EQ(captures(), 1);
  ASSERT_EQ(Run(2, 50, 400'000), Expected(2, 50));
  EXPECT_EQ(captures(), 2);
  ASSERT_EQ(Run(2, 60), Expected(2, 60));
  EXPECT_EQ(captures(), 2);
  EXPECT_EQ(calls_, 4);
}

TEST_F(GraphPass, DroppedWhenMemoryIsFreed) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(Run(2, i), Expected(2, i));
  auto more = backend_->Allocate(100).value();
  ASSERT_EQ(Run(2, 9), Expected(2, 9));
  EXPECT_EQ(captures(), 1);
  more.reset();
  ASSERT_EQ(Run(2, 9), Expected(2, 9));
  EXPECT_EQ(captures(), 2);
}

// A second model on the device allocates, grows and goes.
TEST_F(GraphPass, AreKeptWhenAnotherModelFrees) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(Run(2, i), Expected(2, i));
  auto other = CreateEmulatedCudaBackend().value();
  {
    const std::vector<float> ones(kWidth * kWidth, 1.f);
    const auto matrix =
        other->Pack({ones.data(), Dtype::kF32, {kWidth, kWidth}}, WeightType::kBf16).value();
    const auto memory = other->Allocate(4096 * kWidth * sizeof(float)).value();
    for (const int rows : {1, 4096}) {  // its working memory grows
      other->MatMul(*matrix, memory->floats(), rows, nullptr, false, memory->floats());
    }
    other->Wait();
    ASSERT_EQ(Run(2, 5), Expected(2, 5));
  }
  ASSERT_EQ(Run(2, 6), Expected(2, 6));
  other.reset();
  ASSERT_EQ(Run(2, 7), Expected(2, 7));
  EXPECT_EQ(captures(), 1);
}

// The memory of picks grows for a longer path and for more entries, but no graph reads it.
TEST_F(GraphPass, AreKeptWhenPicksGrow) {
  constexpr int kVocab = 40'000;
  const auto logits = backend_->Allocate(kVocab * sizeof(float)).value();
  for (int i = 0; i < 4; ++i) ASSERT_EQ(Run(2, i), Expected(2, i));
  for (const int length : {1, 10'000, 500'000, 1}) {
    const std::vector<TokenId> path(static_cast<size_t>(length), 0);
    PickBatch batch;
    batch.BeginSequence({});
    batch.AddRow({.count = std::min(length, kVocab), .allowed = kVocab}, path);
    backend_->Draft(batch, logits->floats(), kVocab);
    ASSERT_EQ(Run(2, 9), Expected(2, 9));
  }
  EXPECT_EQ(captures(), 1);
}

TEST_F(GraphPass, LargeOnesAreNotCaptured) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(Run(257, i), Expected(257, i));
    ASSERT_EQ(Run(256, i), Expected(256, i));
  }
  EXPECT_EQ(captures(), 1);
  EXPECT_EQ(calls_, 7);
}

// The rounded copy left in the scratch buffer by a pass does not belong to any later row.
TEST_F(GraphPass, LeaveNoRoundedCopy) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(Run(2, 30 + i), Expected(2, 30 + i));
    // An op outside of passes, on the buffer that the pass rounded last.
    const std::vector<float> fives(2 * kWidth, 5.f);
    backend_->CopyIn(embedded_->data(), fives.data(), fives.size() * sizeof(float));
    backend_->MatMul(*twice_, embedded_->floats(), 2, nullptr, false, out_->floats());
    float value = 0;
    backend_->CopyOut(&value, out_->data(), sizeof(float));
    backend_->Wait();
    EXPECT_EQ(value, 10.f);
    // And one whose copy exists when the next pass is replayed over it.
    ASSERT_EQ(Run(2, 40 + i), Expected(2, 40 + i));
    backend_->MatMul(*twice_, out_->floats(), 2, nullptr, false, embedded_->floats());
    ASSERT_EQ(Run(2, 60 + i), Expected(2, 60 + i));
    backend_->MatMul(*twice_, out_->floats(), 2, nullptr, false, embedded_->floats());
    backend_->CopyOut(&value, embedded_->data(), sizeof(float));
    backend_->Wait();
    EXPECT_EQ(value, static_cast<float>(4 * (60 + i)));
  }
}

// Every pass of as many rows is a replay then, whatever its sequences; one of other rows is not.
TEST_F(GraphPass, CapturedBeforehandAreReplayed) {
  std::vector<TokenId> tokens(3, 0);
  const std::vector<int32_t> zeros(3, 0), begin = {0, 1, 2, 3};
  const BatchLayout layout = {.rows = 3,
                              .sequences = 3,
                              .tokens = tokens.data(),
                              .positions = zeros.data(),
                              .slots = zeros.data(),
                              .row_begin = begin.data(),
                              .context = zeros.data(),
                              .page_begin = begin.data(),
                              .pages = zeros.data()};
  backend_->device()->CapturePasses(layout, kPassShape, KvType::kF32, [&] {
    ++calls_;
    backend_->Embed(*table_, tokens.data(), 3, embedded_->floats());
    backend_->MatMul(*twice_, embedded_->floats(), 3, nullptr, false, out_->floats());
  });
  EXPECT_EQ(captures(), 2) << "with merges and without";
  EXPECT_EQ(calls_, 3) << "and run once";
  EXPECT_EQ(launches(), 0);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Run(3, 5 * i), Expected(3, 5 * i));
  EXPECT_EQ(calls_, 3);
  EXPECT_EQ(launches(), 3);
  ASSERT_EQ(Run(4, 1), Expected(4, 1));
  EXPECT_EQ(calls_, 4);
}

// A pass must not use a copy that existed before it either: a replay would not find it.
TEST_F(GraphPass, RoundWhatTheyReadThemselves) {
  const auto input = backend_->Allocate(kWidth * sizeof(float)).value();
  in_pass_ = [&] {
    backend_->MatMul(*twice_, input->floats(), 1, nullptr, false, out_->floats() + 8 * kWidth);
  };
  for (int i = 0; i < 6; ++i) {
    const std::vector<float> values(kWidth, static_cast<float>(i));
    backend_->CopyIn(input->data(), values.data(), kWidth * sizeof(float));
    if (i < 3) {  // leaves a rounded copy, also before the capture
      backend_->MatMul(*twice_, input->floats(), 1, nullptr, false, out_->floats());
    }
    ASSERT_EQ(Run(1, i), Expected(1, i));
    float value = -1;
    backend_->CopyOut(&value, out_->floats() + 8 * kWidth, sizeof(float));
    backend_->Wait();
    EXPECT_EQ(value, static_cast<float>(2 * i));
  }
  EXPECT_EQ(launches(), 4);
}

TEST(GraphRows, AddFewRows) {
  std::set<int> sizes;
  for (int rows = 1; rows <= kMaxGraphRows; ++rows) {
    const int padded = GraphRows(rows);
    EXPECT_GE(padded, rows);
    EXPECT_LE(padded, kMaxGraphRows);
    EXPECT_EQ(GraphRows(padded), padded);
    if (rows <= 8) {
      EXPECT_LE(padded, 8) << "our product for f32 takes eight rows";
    }
    if (rows <= 16) {
      EXPECT_LE(padded, 16) << "our product takes sixteen";
    }
    EXPECT_LE(padded - rows, std::max(7, padded / 5)) << rows;
    sizes.insert(padded);
  }
  EXPECT_EQ(sizes.size(), 19u);
}

// Sequences of any number and length, trees and chains.
class RandomBatch {
 public:
  RandomBatch(int rows, int logit_rows, std::mt19937& random)
      : tokens_(static_cast<size_t>(rows)), slots_(tokens_.size()) {
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    while (row_begin_.back() < rows) {
      const int count = 1 + below(rows - row_begin_.back());
      const bool tree = below(2) == 0;
      context_.push_back(below(600));
      for (int r = 0; r < count; ++r) {
        parents_.push_back(tree ? below(r + 1) - 1 : r - 1);
        positions_.push_back(parents_.back() < 0
                                 ? context_.back()
                                 : positions_[static_cast<size_t>(row_begin_.back()) +
                                              static_cast<size_t>(parents_.back())] +
                                       1);
      }
      row_begin_.push_back(row_begin_.back() + count);
      for (int page = 0; page <= (context_.back() + count) / 16; ++page) {
        pages_.push_back(below(1000));
      }
      page_begin_.push_back(static_cast<int32_t>(pages_.size()));
    }
    layout = {.rows = rows,
              .sequences = static_cast<int>(context_.size()),
              .tokens = tokens_.data(),
              .positions = positions_.data(),
              .slots = slots_.data(),
              .row_begin = row_begin_.data(),
              .context = context_.data(),
              .page_begin = page_begin_.data(),
              .pages = pages_.data(),
              .parents = parents_.data(),
              .logit_rows = logit_rows_.data(),
              .logit_row_count = logit_rows};
  }
  RandomBatch(const RandomBatch&) = delete;
  RandomBatch& operator=(const RandomBatch&) = delete;

  BatchLayout layout;

 private:
  std::vector<TokenId> tokens_;
  std::vector<int32_t> slots_, positions_, parents_, row_begin_ = {0}, context_, page_begin_ = {0},
                                                     pages_, logit_rows_ = {0, 1};
};

// In passes with equal keys, everything that a graph refers to has the same address, whatever its
// contents: the number and length of sequences, trees or chains, the number of pages.
TEST(CudaBatch, EqualKeysMeanEqualLaunches) {
  const AttentionShape shape = {
      .num_heads = 4, .num_kv_heads = 2, .head_dim = kWidth, .page_tokens = 16};
  const AttentionLimits limits = {.blocks = 16, .max_partials = 1000, .tile_queries = 8};
  const Stream stream;
  CudaBatch batch(&stream);
  std::mt19937 random(3);
  std::map<GraphKey, std::vector<const void*>> places;
  int again = 0;
  for (int i = 0; i < 2000; ++i) {
    const int rows = 4 + static_cast<int>(random() % 4), logit_rows = 1 + i % 2;
    std::vector<std::unique_ptr<RandomBatch>> batches;
    std::vector<BatchLayout> layouts;
    for (int pass = 0; pass <= i % 3; ++pass) {
      batches.push_back(std::make_unique<RandomBatch>(rows, logit_rows, random));
      layouts.push_back(batches.back()->layout);
    }
    batch.BeginPasses(layouts, shape, limits, /*for_graphs=*/true);
    std::vector<const void*> now;
    for (const BatchLayout& layout : layouts) {
      const BatchLayout& device = batch.Rows(layout);
      const PlannedAttention& plan = batch.Attention(layout, shape, limits);
      const AttentionCall& call = plan.call;
      // The grids and the kernel are part of the key.
      EXPECT_THAT(batch.key(), ::testing::IsSupersetOf(
                                   {rows, logit_rows, plan.units, plan.merges, plan.tile_queries}));
      if (layouts.size() == 1) {
        EXPECT_EQ(plan.merges == 0, call.counts[1] == 0);
      }
      for (int sequence = 0; sequence < layout.sequences; ++sequence) {
        const int32_t* host = layout.pages + layout.page_begin[sequence];
        const int32_t* sent = call.pages + call.page_begin[sequence];
        for (int page = 0; page <= layout.context[sequence] / 16; ++page) {
          ASSERT_EQ(sent[page], host[page]);
        }
      }
      now.insert(now.end(),
                 {device.tokens, device.positions, device.slots, device.logit_rows, call.row_begin,
                  call.context, call.page_begin, call.pages, call.is_tree, call.path_begin,
                  call.paths, call.units, call.merges, call.counts, call.positions});
    }
    const auto [it, is_new] = places.try_emplace(batch.key(), now);
    EXPECT_EQ(it->second, now) << i;
    again += !is_new;
    stream.Wait();
    batch.Clear();
  }
  EXPECT_GT(again, 1500);
}

// Whatever a pass does that a capture does not allow, its result is right and the process survives.
TEST_F(GraphPass, HostCopyPreventsGraph) {
  const std::vector<float> other(kWidth, 3.f);
  const auto scrap = backend_->Allocate(kWidth * sizeof(float)).value();
  in_pass_ = [&] { backend_->CopyIn(scrap->data(), other.data(), kWidth * sizeof(float)); };
  for (int i = 0; i < 5; ++i) ASSERT_EQ(Run(2, i), Expected(2, i));
  EXPECT_EQ(launches(), 0);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], ::testing::HasSubstr("a host array is copied"));
}

TEST_F(GraphPass, HostArrayPreventsGraph) {
  const auto scrap = backend_->Allocate(kWidth * sizeof(float)).value();
  const std::vector<TokenId> elsewhere = {7};
  in_pass_ = [&] { backend_->Embed(*table_, elsewhere.data(), 1, scrap->floats()); };
  for (int i = 0; i < 5; ++i) ASSERT_EQ(Run(2, i), Expected(2, i));
  EXPECT_EQ(launches(), 0);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], ::testing::HasSubstr("a host array is sent"));
}

TEST_F(GraphPass, HostWaitPreventsGraph) {
  in_pass_ = [&] {
    if (calls_ == 3) backend_->Wait();
  };
  cuda_emulation::SetLate(true);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Run(2, i), Expected(2, i));
  cuda_emulation::SetLate(false);
  EXPECT_EQ(launches(), 0);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], ::testing::HasSubstr("the host waits"));
}

}  // namespace
}  // namespace outrider
