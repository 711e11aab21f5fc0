#include "verifier/engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace outrider {
namespace {

constexpr SchedulerOptions kOptions{.token_budget = 64, .prefill_chunk = 32};

const Share* Find(const std::vector<Share>& shares, int index) {
  for (const Share& s : shares) {
    if (s.index == index) return &s;
  }
  return nullptr;
}

TEST(Scheduler, TakesEveryDecodeStepThatFits) {
  const auto shares = ChooseShares({{.index = 0, .pending = 1, .draft = 4, .arrival = 1},
                                    {.index = 1, .pending = 1, .draft = 0, .arrival = 2},
                                    {.index = 2, .pending = 2, .draft = 8, .arrival = 3}},
                                   kOptions);
  ASSERT_EQ(shares.size(), 3u);
  for (const Share& s : shares) EXPECT_TRUE(s.last);
}

TEST(Scheduler, PrefillGoesInChunksBesideDecoding) {
  const auto shares = ChooseShares({{.index = 0, .pending = 100, .arrival = 1},
                                    {.index = 1, .pending = 1, .draft = 4, .arrival = 2}},
                                   kOptions);
  ASSERT_EQ(shares.size(), 2u);
  const Share* prompt = Find(shares, 0);
  ASSERT_NE(prompt, nullptr);
  EXPECT_EQ(prompt->pending, 32);
  EXPECT_FALSE(prompt->last);
  EXPECT_TRUE(Find(shares, 1)->last);
}

TEST(Scheduler, LastPromptTokenAwaitsDraftRoom) {
  const auto shares = ChooseShares({{.index = 0, .pending = 10, .draft = 8, .arrival = 1}},
                                   {.token_budget = 16, .prefill_chunk = 16});
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_EQ(shares[0].pending, 9);
  EXPECT_FALSE(shares[0].last);
}

TEST(Scheduler, CostlyGrammarsTakeTurns) {
  constexpr SchedulerOptions kFew{.token_budget = 64, .mask_steps = 10};
  std::vector<Candidate> candidates = {
      {.index = 0, .pending = 1, .mask_steps = 20, .arrival = 1},  // more than a pass may have
      {.index = 1, .pending = 1, .mask_steps = 6, .arrival = 2},
      {.index = 2, .pending = 1, .arrival = 3},
      {.index = 3, .pending = 1, .mask_steps = 4, .arrival = 4}};
  std::vector<std::vector<int>> passes;
  for (uint64_t pass = 1; pass <= 4; ++pass) {
    std::vector<int> chosen;
    for (const Share& share : ChooseShares(candidates, kFew)) {
      chosen.push_back(share.index);
      candidates[static_cast<size_t>(share.index)].served = pass;
    }
    std::sort(chosen.begin(), chosen.end());
    passes.push_back(std::move(chosen));
  }
  EXPECT_EQ(passes, (std::vector<std::vector<int>>{{0, 2}, {1, 2, 3}, {0, 2}, {1, 2, 3}}));
}

TEST(Scheduler, ServesLeastRecentlyServedFirst) {
  std::vector<Candidate> candidates;
  for (int i = 0; i < 10; ++i) {
    candidates.push_back({.index = i,
                          .pending = 1,
                          .draft = 15,
                          .served = static_cast<uint64_t>(10 - i),
                          .arrival = static_cast<uint64_t>(i)});
  }
  const auto shares = ChooseShares(candidates, kOptions);
  ASSERT_EQ(shares.size(), 4u);
  EXPECT_EQ(shares[0].index, 9);
  EXPECT_EQ(shares[3].index, 6);
}

// A random walk over arrivals: the budget holds in every step, no sequence starves, prompts are
// served in order of arrival.
TEST(Scheduler, InvariantsHoldOnRandomWalk) {
  struct Job {
    int pending;
    int draft;
    uint64_t served = 0;
    uint64_t last_step = 0;
    int decodes = 0;
  };
  std::mt19937 random(5);
  std::map<uint64_t, Job> jobs;
  uint64_t arrivals = 0;
  for (uint64_t step = 1; step < 3000; ++step) {
    if (jobs.size() < 30 && random() % 3 == 0) {
      jobs[++arrivals] = {.pending = 1 + static_cast<int>(random() % 200),
                          .draft = static_cast<int>(random() % 9),
                          .last_step = step};
    }
    std::vector<Candidate> candidates;
    for (const auto& [id, job] : jobs) {
      candidates.push_back({.index = static_cast<int>(id),
                            .pending = job.pending,
                            .draft = job.draft,
                            .served = job.served,
                            .arrival = id});
    }
    const auto shares = ChooseShares(candidates, kOptions);
    ASSERT_EQ(shares.empty(), jobs.empty());
    int rows = 0;
    std::vector<int> seen;
    for (const Share& share : shares) {
      Job& job = jobs.at(static_cast<uint64_t>(share.index));
      ASSERT_GE(share.pending, 1);
      ASSERT_LE(share.pending, job.pending);
      if (share.last) {
        ASSERT_EQ(share.pending, job.pending);
      }
      rows += share.pending + (share.last ? job.draft : 0);
      seen.push_back(share.index);
      job.served = step;
      job.last_step = step;
      job.pending -= share.pending;
      if (share.last) {
        job.pending = 1;
        ++job.decodes;
      }
    }
    ASSERT_LE(rows, kOptions.token_budget);
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
    for (auto it = jobs.begin(); it != jobs.end();) {
      // 30 jobs of at most 209 rows through a quarter of 64 rows per step.
      ASSERT_LT(step - it->second.last_step, 500u) << "starved";
      it = it->second.decodes >= 20 ? jobs.erase(it) : std::next(it);
    }
  }
  EXPECT_GT(arrivals, 100u);
}

}  // namespace
}  // namespace outrider
