#include "common/base/printable.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(Printable, ReplacesControlCharacters) { EXPECT_EQ(Printable("a\nb\x7f\x1b[2J"), "a?b??[2J"); }

TEST(Printable, CutsLongTextsBetweenCharacters) {
  EXPECT_EQ(Printable("abcdef", 6), "abcdef");
  EXPECT_EQ(Printable("abcdefg", 6), "abcdef...");
  const std::string euros = "\xe2\x82\xac\xe2\x82\xac";  // two characters
  EXPECT_EQ(Printable(euros, 6), euros);
  for (const size_t longest : {3, 4, 5}) {
    EXPECT_EQ(Printable(euros, longest), "\xe2\x82\xac...");
  }
  EXPECT_EQ(Printable("\x80\x80\x80", 2), "...");
}

}  // namespace
}  // namespace outrider
