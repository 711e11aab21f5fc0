#include "verifier/control/plain_time.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

// A machine: what rows cost on it.
double Cost(int scored, int prompt) { return 0.020 + 0.002 * scored + 0.0005 * prompt; }

class PlainTimeTest : public ::testing::Test {
 protected:
  void Step(const PlainTime::Step& step, double slowdown = 1) {
    time_.OnStep(step, slowdown * Cost(step.scored, step.prompt));
  }
  // Steps of several kinds, as an engine under load has them.
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
    // Prompts in the step, steps that the sequence was not in, a stall: all of it is in both.
    Step({.decoding = sequences, .scored = sequences, .prompt = 40}, /*slowdown=*/1.7);
    const double seconds = 0.1 * sequences + 0.123456789;
    EXPECT_EQ(time_.Of({.seconds = seconds, .prompt_seconds = 0.01}), seconds);
  }
}

TEST_F(PlainTimeTest, PerfectDraftsHaveTheGainOfTheirCost) {
  Learn();
  const double wait = 0.007;
  Step({.decoding = 3, .scored = 15, .drafts = true});
  const PlainTime::Round round{.seconds = Cost(15, 0) + wait, .tokens = 5, .asked = true};
  EXPECT_NEAR(time_.Of(round), 5 * Cost(3, 0), 1e-3 * Cost(3, 0));
  // The machine was slow: both sides of the comparison are.
  Step({.decoding = 3, .scored = 15, .drafts = true}, 3);
  EXPECT_NEAR(time_.Of(round), 3 * 5 * Cost(3, 0), 0.05 * 3 * 5 * Cost(3, 0));
}

TEST_F(PlainTimeTest, RejectedDraftsAreALoss) {
  Learn();
  Step({.decoding = 1, .scored = 5, .drafts = true});
  EXPECT_NEAR(time_.Of({.seconds = Cost(5, 0), .tokens = 1, .asked = true}), Cost(1, 0), 1e-4);
  // Nothing came of the draft at all, and the step was a plain one: the wait is lost.
  Step({.decoding = 1, .scored = 1});
  EXPECT_NEAR(time_.Of({.seconds = 0.5, .tokens = 1, .asked = true}), Cost(1, 0), 1e-9);
}

TEST_F(PlainTimeTest, PromptsAddAsMuchToBothSides) {
  Learn();
  const double before = time_.prompt_seconds();
  Step({.decoding = 1, .prompt = 200, .drafts = true});  // while the draft was awaited
  Step({.decoding = 1, .scored = 5, .prompt = 100, .drafts = true});
  const double prompts = time_.prompt_seconds() - before;
  EXPECT_NEAR(prompts, Cost(0, 200) + 0.0005 * 100, 2e-3);
  const double took = Cost(0, 200) + Cost(5, 100);
  const double plain =
      time_.Of({.seconds = took, .prompt_seconds = prompts, .tokens = 5, .asked = true});
  EXPECT_NEAR(took - plain, Cost(5, 0) - 5 * Cost(1, 0), 2e-3);
}

TEST_F(PlainTimeTest, PlainRoundsBesideDraftsBearWhatThoseCost) {
  Learn();
  Step({.decoding = 4, .scored = 2 + 2 * 9, .drafts = true});
  EXPECT_NEAR(time_.Of({.seconds = Cost(20, 0)}), Cost(4, 0), 1e-3);
  // Two that wait for a draft are missing in the step: it is the faster for them.
  Step({.decoding = 4, .scored = 2, .drafts = true});
  EXPECT_NEAR(time_.Of({.seconds = Cost(2, 0)}), Cost(4, 0), 1e-3);
}

}  // namespace
}  // namespace outrider
