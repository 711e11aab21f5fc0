#include "common/grammar/grammar_state.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/common/grammar/grammar_testing.h"

namespace outrider::grammar {
namespace {

TEST(GrammarState, CopiesGoTheirOwnWays) {
  Stepper stepper;
  GrammarState trunk(Compiled(Kind::kGbnf, "root ::= \"(\" root \")\" | [ab]"));
  ASSERT_TRUE(trunk.Advance("((", stepper));
  GrammarState left = trunk, right = trunk;
  EXPECT_TRUE(left.Advance("a)", stepper));
  EXPECT_TRUE(right.Advance("(b)))", stepper));
  EXPECT_FALSE(left.is_accepting());
  EXPECT_TRUE(right.is_accepting());
  EXPECT_FALSE(trunk.Advance(")", stepper));
  EXPECT_TRUE(trunk.is_dead());
  EXPECT_TRUE(left.Advance(")", stepper));
  EXPECT_TRUE(left.is_accepting());
}

TEST(GrammarState, StaysDead) {
  Stepper stepper;
  GrammarState state(OneOf({"ab", "abc"}));
  EXPECT_TRUE(state.Advance("ab", stepper));
  EXPECT_TRUE(state.is_accepting());
  EXPECT_FALSE(state.Advance("x", stepper));
  EXPECT_FALSE(state.is_accepting());
  EXPECT_FALSE(state.Advance("c", stepper));
  EXPECT_FALSE(state.Advance("", stepper));
  EXPECT_FALSE(state.is_overflowed());
}

// A text is read the same way whatever the tokens into which it is split.
TEST(GrammarState, DoesNotDependOnTheCuts) {
  const std::string text = R"({"a": [1,{"b":"x\ud83d\ude00"}],"c": -2.5e3})";
  Stepper stepper;
  for (size_t cut = 1; cut < text.size(); ++cut) {
    GrammarState state(Grammar::Compile({}).value());
    ASSERT_TRUE(state.Advance(text.substr(0, cut), stepper)) << cut;
    EXPECT_FALSE(state.is_accepting());
    ASSERT_TRUE(state.Advance(text.substr(cut), stepper)) << cut;
    EXPECT_TRUE(state.is_accepting());
  }
}

TEST(GrammarState, OutlivesItsMakersOnOtherThreads) {
  Stepper stepper;
  GrammarState state(Compiled(Kind::kGbnf, "root ::= \"(\" root \")\" | \"\""));
  ASSERT_TRUE(state.Advance(std::string(100000, '('), stepper));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([copy = state]() mutable {
      Stepper own;
      EXPECT_TRUE(copy.Advance(std::string(100000, ')'), own));
      EXPECT_TRUE(copy.is_accepting());
    });
  }
  state = GrammarState(OneOf({"a"}));
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace outrider::grammar
