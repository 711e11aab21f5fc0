#include "common/rpc/token_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/support/services.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

TEST(ParseTokens, TakesNamesCommentsAndBlankLines) {
  const auto tokens = ParseTokens("# clients\n\n  alone \nalice\ttok-1\r\n#bob tok-2\nbob tok#3");
  ASSERT_TRUE(tokens.ok()) << tokens.status().ToString();
  ASSERT_THAT(*tokens, SizeIs(3));
  EXPECT_EQ((*tokens)[0].name, "");
  EXPECT_EQ((*tokens)[0].token, "alone");
  EXPECT_EQ((*tokens)[1].name, "alice");
  EXPECT_EQ((*tokens)[1].token, "tok-1");
  EXPECT_EQ((*tokens)[2].token, "tok#3");
}

TEST(ParseTokens, RefusesInvalidLinesByNumber) {
  for (const char* text :
       {"good\na secret more", "good\nbob s\xc3\xa4secret", "secret\na secret"}) {
    const auto tokens = ParseTokens(text);
    EXPECT_EQ(tokens.status().code(), Code::kInvalidArgument) << text;
    EXPECT_THAT(tokens.status().message(), HasSubstr("line 2"));
    EXPECT_THAT(tokens.status().message(), Not(HasSubstr("secret")));
  }
  EXPECT_EQ(ParseTokens("# none\n").status().code(), Code::kInvalidArgument);
}

class TokenFileTest : public ::testing::Test {
 protected:
  testing::TempDir dir_;
  const std::string path_ = dir_ / "tokens";
};

TEST_F(TokenFileTest, FindsATokenOnlyWhole) {
  Write(path_, "alice token-1\ntoken-12\n");
  const auto file = TokenFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ((*file)->Find("token-1"), "alice");
  EXPECT_EQ((*file)->Find("token-12"), "");
  for (const char* other : {"", "token", "token-", "token-2", "token-123", "TOKEN-1", "alice",
                            "alice token-1", " token-1", "token-1\n"}) {
    EXPECT_EQ((*file)->Find(other), std::nullopt) << other;
  }
  EXPECT_EQ((*file)->Find(std::string_view("token-1\0", 8)), std::nullopt);
}

TEST_F(TokenFileTest, FollowsItsFile) {
  Write(path_, "old-token\n");
  const auto file = TokenFile::Open(path_);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->Find("old-token").has_value());
  Write(dir_ / "next", "new-token\n");
  std::filesystem::rename(dir_ / "next", path_);
  EXPECT_TRUE((*file)->Find("new-token").has_value());
  EXPECT_FALSE((*file)->Find("old-token").has_value()) << "it was taken back";
}

TEST_F(TokenFileTest, InvalidFileKeepsOldTokens) {
  Write(path_, "good\n");
  const auto file = TokenFile::Open(path_);
  ASSERT_TRUE(file.ok());
  for (const char* bad : {"", "# nobody\n", "one two three\nevil\n"}) {
    Write(path_, bad);
    EXPECT_TRUE((*file)->Find("good").has_value()) << bad;
    EXPECT_FALSE((*file)->Find("evil").has_value()) << bad;
  }
  std::filesystem::remove(path_);
  EXPECT_TRUE((*file)->Find("good").has_value());
  Write(path_, "better\n");
  EXPECT_TRUE((*file)->Find("better").has_value());
  EXPECT_FALSE((*file)->Find("good").has_value());
}

TEST_F(TokenFileTest, MustBeRightAtTheStart) {
  EXPECT_EQ(TokenFile::Open(path_).status().code(), Code::kNotFound);
  Write(path_, "\n");
  const auto empty = TokenFile::Open(path_);
  EXPECT_EQ(empty.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(empty.status().message(), HasSubstr(path_));
}

TEST_F(TokenFileTest, FirstTokenIsOnesOwn) {
  Write(path_, "# mine\nme token-1\ntoken-2\n");
  const auto token = ReadToken(path_);
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(*token, "token-1");
  EXPECT_EQ(ReadToken(dir_ / "none").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace outrider
