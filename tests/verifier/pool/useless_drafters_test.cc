// Drafters that never help hold no place of --max-drafters that another one needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "tests/verifier/pool/pool_fixture.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

// Two drafters hold all places and are of no use for a minute. Then another one comes.
class UselessDrafters : public Pool {
 protected:
  void JoinUseless(const DrafterHello& hello) {
    for (const uint64_t id : {1, 2})
      ASSERT_TRUE(full_.roster().Join(id, hello, links_[id - 1]).ok());
  }
  // A session of so many tokens looks for a drafter, all the time, as the planner does.
  void Ask(int tokens) {
    for (int i = 0; i <= 120; ++i) {
      EXPECT_FALSE(full_.Timing(/*session=*/9, tokens).has_value());
      clock_.Advance(std::chrono::milliseconds(500));
    }
  }
  void ExpectNoPlace() {
    EXPECT_EQ(full_.roster().Join(3, Hello("late"), std::make_shared<RecordingLink>()).code(),
              Code::kResourceExhausted);
  }
  // One of the two gives its place. Returns its id.
  uint64_t Displaced() {
    EXPECT_TRUE(full_.roster().Join(3, Hello("useful"), std::make_shared<RecordingLink>()).ok());
    EXPECT_NE(links_[0]->is_closed, links_[1]->is_closed);
    const uint64_t id = links_[0]->is_closed ? 1 : 2;
    EXPECT_THAT(links_[id - 1]->closed_with.message(), HasSubstr("of no use for a minute"));
    return id;
  }

  DrafterPool full_{TranslatedTarget(), {}, nullptr, &clock_, {.max_drafters = 2}};
  std::shared_ptr<RecordingLink> links_[2] = {std::make_shared<RecordingLink>(),
                                              std::make_shared<RecordingLink>()};
};

TEST_F(UselessDrafters, TakesPlacesOfShortContexts) {
  DrafterHello hello = Hello("short");
  hello.max_context = 40;
  JoinUseless(hello);
  Ask(/*tokens=*/60);
  Displaced();
}

TEST_F(UselessDrafters, TakesPlacesOfFullDrafters) {
  JoinUseless(Hello("full"));
  for (const uint64_t id : {1, 2}) full_.roster().OnLoad(id, {.sessions = 0, .session_limit = 0});
  Ask(/*tokens=*/5);
  Displaced();
}

TEST_F(UselessDrafters, TakesPlacesOfUnansweredVocabularies) {
  DrafterHello hello = Hello("mute");
  hello.translates = true;
  hello.tokenizer.vocabulary = 99;
  JoinUseless(hello);
  EXPECT_FALSE(full_.roster().Join(3, Hello("early"), std::make_shared<RecordingLink>()).ok());
  Ask(/*tokens=*/5);
  EXPECT_EQ(full_.roster().OnMatch(Displaced(), {.shared = 100, .tokens = 100}).code(),
            Code::kFailedPrecondition);
}

TEST_F(UselessDrafters, KeepsDraftersThatFitAtTimes) {
  DrafterHello hello = Hello("short");
  hello.max_context = 40;
  JoinUseless(hello);
  Ask(/*tokens=*/60);
  EXPECT_TRUE(full_.HasRoom(30));
  ExpectNoPlace();
  EXPECT_FALSE(full_.HasRoom(60));
  clock_.Advance(std::chrono::minutes(5));
  ExpectNoPlace();  // one long text says little
}

TEST_F(UselessDrafters, KeepsDraftersWithRoomAgain) {
  JoinUseless(Hello("full"));
  for (const uint64_t id : {1, 2}) full_.roster().OnLoad(id, {.sessions = 0, .session_limit = 0});
  Ask(/*tokens=*/5);
  for (const uint64_t id : {1, 2}) full_.roster().OnLoad(id, {.sessions = 0, .session_limit = 2});
  ExpectNoPlace();
}

}  // namespace
}  // namespace outrider
