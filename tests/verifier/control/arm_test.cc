#include "verifier/control/arm.h"

#include <gtest/gtest.h>

#include "tests/verifier/control/arms.h"

namespace outrider {
namespace {

TEST(ArmSet, PlainDecodingIsAlwaysThere) {
  const ArmSet without = MakeArms({Chain("a", 4), Chain("b", 2)});
  ASSERT_EQ(without.size(), 3);
  EXPECT_EQ(without.plain(), 2);
  EXPECT_EQ(without.arm(2).name, "none");
  EXPECT_EQ(without.given(), ArmMask{3});
  const ArmSet with = MakeArms({Plain(), Chain("a", 4)});
  EXPECT_EQ(with.size(), 2);
  EXPECT_EQ(with.plain(), 0);
  EXPECT_EQ(with.given(), with.all());
  // Not under an existing name.
  EXPECT_EQ(MakeArms({Chain("none", 4)}).arm(1).name, "none_");
}

TEST(ArmSet, LengthsOfProposerFormFamily) {
  Arm wide = Chain("wide", 4);
  wide.shape = Sequences(3, 4);
  Arm token_rule = Chain("token", 4);
  token_rule.rule = Rule::kToken;
  const ArmSet arms =
      MakeArms({Chain("a2", 2), Chain("a4", 4), wide, token_rule, Chain("b", 4, "other"), Plain()});
  EXPECT_EQ(arms.facts(0).family, arms.facts(1).family);
  for (const int i : {2, 3, 4, 5}) EXPECT_NE(arms.facts(i).family, arms.facts(0).family) << i;
  for (const int i : {1, 2, 3}) EXPECT_EQ(arms.facts(i).proposer, arms.facts(0).proposer) << i;
  EXPECT_NE(arms.facts(4).proposer, arms.facts(0).proposer);
  EXPECT_EQ(arms.proposers(), 3);
  EXPECT_EQ(arms.families(), 5);
  EXPECT_EQ(arms.max_length(), 4);
}

TEST(ArmSet, RowsAreDrawsAndPendingToken) {
  Arm wide = Chain("wide", 4);
  wide.shape = Sequences(3, 4);
  Arm tree = Chain("tree", 2);
  tree.shape.branching = {3, 2};
  const ArmSet arms = MakeArms({Chain("a", 4), wide, tree, Plain()});
  EXPECT_EQ(arms.facts(0).rows, 5);
  EXPECT_EQ(arms.facts(1).rows, 13);
  EXPECT_EQ(arms.facts(2).rows, 10);  // 3 + 6 + 1
  EXPECT_EQ(arms.facts(3).rows, 1);
  EXPECT_EQ(arms.facts(1).sequences, 3);
  EXPECT_EQ(arms.facts(3).sequences, 0);
}

TEST(ArmSet, RefusesWhatIsNoArm) {
  Arm drafting_plain = Plain();
  drafting_plain.shape.length = 2;
  Arm none_drawn = Chain("x", 2);
  none_drawn.shape.branching = {0};
  Arm too_many = Chain("x", 40);
  too_many.shape.branching.assign(40, 2);
  for (const Arm& arm : {Chain("", 2), Chain("x", -1), Chain("x", kMaxArmLength + 1),
                         drafting_plain, none_drawn, too_many, Chain("a", 2)}) {
    const auto set = ArmSet::Create({Chain("a", 2), arm});
    ASSERT_FALSE(set.ok());
    EXPECT_EQ(set.status().code(), Code::kInvalidArgument);
  }
  std::vector<Arm> many;
  for (int i = 0; i < kMaxArms; ++i) many.push_back(Chain(std::to_string(i), 1));
  EXPECT_FALSE(ArmSet::Create(many).ok());  // no room for plain decoding
  many.back() = Plain();
  EXPECT_EQ(MakeArms(many).all(), ~ArmMask{0});
  many.push_back(Chain("one more", 1));
  EXPECT_FALSE(ArmSet::Create(many).ok());
}

}  // namespace
}  // namespace outrider
