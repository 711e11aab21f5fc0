#include "common/training/head_data.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kModel = 0xABCDEF0123456789u;
constexpr int kWidth = 3;
constexpr size_t kHeaderBytes = 72, kExampleBytes = 16 + 4 * kWidth;

class HeadDataFile : public ::testing::Test {
 protected:
  static HeadTransforms Transforms() {
    return {.sampling = {.temperature = 0.7f,
                         .top_k = 40,
                         .top_p = 0.9f,
                         .min_p = 0.01f,
                         .repetition_penalty = 1.1f,
                         .presence_penalty = 0.2f,
                         .frequency_penalty = -0.3f},
            .distribution_limits = {.mass = 0.99f, .max_entries = 32}};
  }
  static HeadExample Example(int i) {
    const auto x = static_cast<float>(i);
    return {.prompt = static_cast<uint64_t>(i) / 2, .label = x / 100, .hidden = {x, -x, 0.5f}};
  }

  Result<std::unique_ptr<HeadDataWriter>> Open() {
    return HeadDataWriter::Open(path_, kWidth, kModel);
  }
  // Writes a file with `count` examples.
  void Write(int count) {
    auto writer = Open();
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    ASSERT_TRUE((*writer)->Begin(Transforms()).ok());
    for (int i = 0; i < count; ++i) {
      const HeadExample example = Example(i);
      ASSERT_TRUE((*writer)->Append({&example, 1}).ok());
    }
  }

  std::string Bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void SetBytes(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  void ExpectExamples(uint64_t count) {
    const Result<HeadData> data = ReadHeadData(path_, kAll);
    ASSERT_TRUE(data.ok()) << data.status().ToString();
    ASSERT_EQ(data->size(), count);
    ASSERT_EQ(data->prompts.size(), count);
    ASSERT_EQ(data->hidden.size(), count * kWidth);
    for (size_t i = 0; i < count; ++i) {
      const HeadExample expected = Example(static_cast<int>(i));
      EXPECT_EQ(data->prompts[i], expected.prompt);
      EXPECT_EQ(data->labels[i], expected.label);
      EXPECT_TRUE(std::equal(expected.hidden.begin(), expected.hidden.end(),
                             data->hidden.begin() + static_cast<std::ptrdiff_t>(i * kWidth)));
    }
  }

  const testing::TempDir dir_;
  const std::string path_ = dir_ / "data";
};

TEST_F(HeadDataFile, RoundTrips) {
  Write(5);
  ExpectExamples(5);
  const Result<HeadData> data = ReadHeadData(path_, kAll);
  EXPECT_EQ(data->header.width, kWidth);
  EXPECT_EQ(data->header.model, kModel);
  EXPECT_EQ(data->header.transforms, Transforms());
  EXPECT_EQ(Bytes().size(), kHeaderBytes + 5 * kExampleBytes);
  EXPECT_EQ(CountHeadData(path_)->examples, 5u);
  EXPECT_EQ(CountHeadData(path_)->header.transforms, Transforms());
}

TEST_F(HeadDataFile, DigestOfFirstPartStays) {
  Write(5);
  const Result<HeadData> part = ReadHeadData(path_, 3), whole = ReadHeadData(path_, kAll);
  EXPECT_EQ(part->size(), 3u);
  EXPECT_NE(part->digest, whole->digest);
  std::filesystem::remove(path_);
  Write(3);
  EXPECT_EQ(ReadHeadData(path_, kAll)->digest, part->digest);
}

TEST_F(HeadDataFile, NextWriterAppendsAfterLastExample) {
  Write(2);
  {
    auto writer = Open();
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    EXPECT_EQ((*writer)->transforms(), Transforms());
    EXPECT_EQ((*writer)->examples(), 2u);
    const HeadExample more[] = {Example(2), Example(3)};
    ASSERT_TRUE((*writer)->Append(more).ok());
    EXPECT_EQ((*writer)->examples(), 4u);
  }
  ExpectExamples(4);
}

TEST_F(HeadDataFile, DropsTruncatedTail) {
  Write(3);
  const std::string bytes = Bytes();
  for (size_t size = 0; size <= bytes.size(); ++size) {
    SetBytes(bytes.substr(0, size));
    const uint64_t whole = size < kHeaderBytes ? 0 : (size - kHeaderBytes) / kExampleBytes;
    if (size < kHeaderBytes) {
      EXPECT_EQ(ReadHeadData(path_, kAll).status().code(), Code::kFailedPrecondition) << size;
      EXPECT_EQ(CountHeadData(path_).status().code(), Code::kFailedPrecondition) << size;
    } else {
      ExpectExamples(whole);
      EXPECT_EQ(CountHeadData(path_)->examples, whole);
    }
    auto writer = Open();
    ASSERT_TRUE(writer.ok()) << size << ": " << writer.status().ToString();
    EXPECT_EQ((*writer)->examples(), whole);
    if (size < kHeaderBytes) {
      ASSERT_TRUE((*writer)->Begin(Transforms()).ok());
    }
    const HeadExample next = Example(static_cast<int>(whole));
    ASSERT_TRUE((*writer)->Append({&next, 1}).ok());
    ExpectExamples(whole + 1);
    ASSERT_FALSE(HasFailure()) << "cut at " << size;
  }
}

// As left by a machine that lost power: the size is there, the bytes are not.
TEST_F(HeadDataFile, DropsEmptyBlocksAtEnd) {
  Write(3);
  SetBytes(Bytes() + std::string(2 * kExampleBytes + 5, '\0'));
  ExpectExamples(3);
  EXPECT_EQ((*Open())->examples(), 3u);
  EXPECT_EQ(Bytes().size(), kHeaderBytes + 3 * kExampleBytes);
}

TEST_F(HeadDataFile, DamageInMiddleIsError) {
  Write(4);
  const std::string bytes = Bytes();
  for (size_t byte = kHeaderBytes; byte < kHeaderBytes + kExampleBytes; ++byte) {
    std::string damaged = bytes;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 1);
    SetBytes(damaged);
    const Result<HeadData> data = ReadHeadData(path_, kAll);
    EXPECT_EQ(data.status().code(), Code::kDataLoss) << byte;
  }
  for (size_t offset = 12; offset < kHeaderBytes; ++offset) {  // after magic and version
    std::string damaged = bytes;
    damaged[offset] = static_cast<char>(damaged[offset] ^ 1);
    SetBytes(damaged);
    EXPECT_EQ(CountHeadData(path_).status().code(), Code::kDataLoss) << offset;
  }
}

// With the right checksum: as of a drafter whose states overflowed.
TEST_F(HeadDataFile, HiddenStatesMustBeFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::filesystem::remove(path_);
    Write(1);
    HeadExample example = Example(1);
    example.hidden.back() = bad;
    ASSERT_TRUE((*Open())->Append({&example, 1}).ok());
    ExpectExamples(1);  // dropped, as the last one
    const std::string one_and_bad = Bytes();
    EXPECT_EQ((*Open())->examples(), 1u);
    SetBytes(one_and_bad + one_and_bad.substr(kHeaderBytes, kExampleBytes));
    EXPECT_EQ(ReadHeadData(path_, kAll).status().code(), Code::kDataLoss);
  }
}

TEST_F(HeadDataFile, RefusesOtherFilesAndKeepsThem) {
  const auto expect = [this](Code code, const std::string& words) {
    const std::string before = Bytes();
    const auto writer = Open();
    ASSERT_FALSE(writer.ok());
    EXPECT_EQ(writer.status().code(), code);
    EXPECT_THAT(writer.status().message(), HasSubstr(words));
    EXPECT_THAT(writer.status().message(), HasSubstr(path_));
    EXPECT_EQ(Bytes(), before);
  };
  SetBytes("dear diary");
  expect(Code::kInvalidArgument, "no file of head data");
  EXPECT_EQ(ReadHeadData(path_, kAll).status().code(), Code::kInvalidArgument);
  SetBytes("");
  Write(2);
  std::string other = Bytes();
  other[8] = 2;
  SetBytes(other);
  expect(Code::kInvalidArgument, "version 2");
  EXPECT_EQ(CountHeadData(path_).status().code(), Code::kInvalidArgument);
  other[8] = 1;
  SetBytes(other);
  EXPECT_TRUE(Open().ok());
  for (const auto& [width, model] :
       {std::pair(kWidth + 1, kModel), std::pair(kWidth, kModel + 1)}) {
    const auto writer = HeadDataWriter::Open(path_, width, model);
    EXPECT_EQ(writer.status().code(), Code::kFailedPrecondition);
    EXPECT_THAT(writer.status().message(), HasSubstr("another draft model"));
  }
  ExpectExamples(2);
  EXPECT_EQ(ReadHeadData(path_ + ".not", kAll).status().code(), Code::kNotFound);
}

TEST_F(HeadDataFile, RefusesSecondWriter) {
  const auto first = Open();
  ASSERT_TRUE(first.ok());
  const auto second = Open();
  EXPECT_EQ(second.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(second.status().message(), HasSubstr("another process"));
}

TEST_F(HeadDataFile, IsReadWhileItIsWritten) {
  auto writer = Open();
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(CountHeadData(path_).status().code(), Code::kFailedPrecondition);
  ASSERT_TRUE((*writer)->Begin(Transforms()).ok());
  EXPECT_EQ(CountHeadData(path_)->examples, 0u);
  const HeadExample example = Example(0);
  ASSERT_TRUE((*writer)->Append({&example, 1}).ok());
  ExpectExamples(1);
}

TEST(PromptId, TellsTokensApart) {
  const std::vector<TokenId> a = {1, 2, 3}, b = {1, 2}, c = {3, 2, 1}, d = {1, 2, 3};
  EXPECT_EQ(PromptId(a), PromptId(d));
  EXPECT_NE(PromptId(a), PromptId(b));
  EXPECT_NE(PromptId(a), PromptId(c));
}

}  // namespace
}  // namespace outrider
