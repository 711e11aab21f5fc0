#include "common/base/shared_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace outrider {
namespace {

using ::testing::ElementsAre;

TEST(SharedValue, CopiesAreTheSameObject) {
  const SharedValue<std::string> text = std::string("text");
  const SharedValue<std::string> copy =
      text;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(&*copy, &*text);
  const SharedList<int> list = {1, 2};
  const SharedList<int> other = list;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(other.data(), list.data());
}

TEST(SharedValue, ComparesWhatItHolds) {
  const SharedValue<std::string> none;
  EXPECT_FALSE(none.has_value());
  EXPECT_EQ(none, SharedValue<std::string>());
  EXPECT_EQ(SharedValue<std::string>(std::string("a")), SharedValue<std::string>(std::string("a")));
  EXPECT_FALSE(SharedValue<std::string>(std::string("a")) == none);
  EXPECT_FALSE(none == SharedValue<std::string>(std::string()));
  EXPECT_EQ(SharedList<int>(), SharedList<int>(std::vector<int>()));
  EXPECT_EQ((SharedList<int>{1, 2}), (SharedList<int>{1, 2}));
  EXPECT_FALSE((SharedList<int>{1, 2}) == (SharedList<int>{1, 3}));
}

TEST(SharedValue, TakesWhatIsAssigned) {
  SharedValue<std::string> text;
  text = {"abc", 2};
  EXPECT_EQ(*text, "ab");
  text = std::optional<std::string>();
  EXPECT_FALSE(text.has_value());
  SharedList<std::vector<int>> lists = {{1}, {2, 3}};
  EXPECT_THAT(lists, ElementsAre(ElementsAre(1), ElementsAre(2, 3)));
  lists = {};
  EXPECT_TRUE(lists.empty());
}

}  // namespace
}  // namespace outrider
