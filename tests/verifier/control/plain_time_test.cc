#include "verifier/control/plain_time.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

// The cost of rows on a simulated machine.
double Cost(int scored, int prompt) { return 0.020 + 0.002 * scored + 0.0005 * prompt; }

class PlainTimeTest : public ::testing::Test {
 protected:
  void Step(const PlainTime::Step& step, double slowdown = 1) {
    time_.OnStep(step, slowdown * Cost(step.scored, step.prompt));
  }
  // Steps of several kinds, as in an engine under load.
  void Learn() {
    for (int i = 0; i < 50; ++i) {
      Step({.decoding = 1, .scored = 1});
      Step({.decoding = 1, .scored = 5, .drafts = true});
      Step({.decoding = 8, .scored = 8, .prompt = 64});
      Step({.prompt = 128});
    }
  }

  PlainTime time_;
};

TEST_F(PlainTimeTest, PlainRoundTakesWhatItTook) {
  Learn();
  for (const int sequences : {1, 24}) {
    // Prompts in the step, steps without the sequence, a stall: both times include all of it.
    Step({.decoding = sequences, .scored = sequences, .prompt = 40}, /*slowdown=*/1.7);
    const double seconds = 0.1 * sequences + 0.123456789;
    EXPECT_EQ(time_.Of({.seconds = seconds, .prompt_seconds = 0.01}), seconds);
  }
}

TEST_F(PlainTimeTest, PerfectDraftsHaveExpectedSpeedup) {
  Learn();
  const double wait = 0.007;
  Step({.decoding = 3, .scored = 15, .drafts = true});
  const PlainTime::Round round{.seconds = Cost(15, 0) + wait, .tokens = 5, .asked = true};
  EXPECT_NEAR(time_.Of(round), 5 * Cost(3, 0), 1e-3 * Cost(3, 0));
  // The machine was slow, for both sides of the comparison.
  Step({.decoding = 3, .scored = 15, .drafts = true}, 3);
  EXPECT_NEAR(time_.Of(round), 3 * 5 * Cost(3, 0), 0.05 * 3 * 5 * Cost(3, 0));
}

TEST_F(PlainTimeTest, RejectedDraftsAreALoss) {
  Learn();
  Step({.decoding = 1, .scored = 5, .drafts = true});
  EXPECT_NEAR(time_.Of({.seconds = Cost(5, 0), .tokens = 1, .asked = true}), Cost(1, 0), 1e-4);
  // The draft contributed nothing, and the step was a plain one: the wait is lost.
  Step({.decoding = 1, .scored = 1});
  EXPECT_NEAR(time_.Of({.seconds = 0.5, .tokens = 1, .asked = true}), Cost(1, 0), 1e-9);
}

TEST_F(PlainTimeTest, PromptsAddEquallyToBothSides) {
  Learn();
  const double before = time_.prompt_seconds();
  Step({.decoding = 1, .prompt = 200, .drafts = true});  // while waiting for the draft
  Step({.decoding = 1, .scored = 5, .prompt = 100, .drafts = true});
  const double prompts = time_.prompt_seconds() - before;
  EXPECT_NEAR(prompts, Cost(0, 200) + 0.0005 * 100, 2e-3);
  const double took = Cost(0, 200) + Cost(5, 100);
  const double plain =
      time_.Of({.seconds = took, .prompt_seconds = prompts, .tokens = 5, .asked = true});
  EXPECT_NEAR(took - plain, Cost(5, 0) - 5 * Cost(1, 0), 2e-3);
}

TEST_F(PlainTimeTest, PlainRoundsBearCostOfDrafts) {
  Learn();
  Step({.decoding = 4, .scored = 2 + 2 * 9, .drafts = true});
  EXPECT_NEAR(time_.Of({.seconds = Cost(20, 0)}), Cost(4, 0), 1e-3);
  // Two sequences that wait for a draft are missing from the step, which is faster without them.
  Step({.decoding = 4, .scored = 2, .drafts = true});
  EXPECT_NEAR(time_.Of({.seconds = Cost(2, 0)}), Cost(4, 0), 1e-3);
}

}  // namespace
}  // namespace outrider
