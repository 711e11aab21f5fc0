#include "client/draft_marks.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(DraftMarks, MarkTextBeforeVerifiersOwn) {
  EXPECT_EQ(MarkAccepted(" upon a time,", ",", MarkStyle::kBrackets), "[ upon a time],");
  EXPECT_EQ(MarkAccepted(" upon a time,", ",", MarkStyle::kColour), "\x1b[32m upon a time\x1b[0m,");
}

TEST(DraftMarks, VerifiersOwnChunkHasNone) {
  EXPECT_EQ(MarkAccepted(" cat", " cat", MarkStyle::kBrackets), " cat");
  EXPECT_EQ(MarkAccepted("", "", MarkStyle::kColour), "");
}

TEST(DraftMarks, CutTextIsAllAccepted) {
  EXPECT_EQ(MarkAccepted("The en", "d.", MarkStyle::kBrackets), "[The en]");
}

}  // namespace
}  // namespace outrider
