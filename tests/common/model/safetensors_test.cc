#include "common/model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <random>
#include <string>

#include "tests/common/model/model_testing.h"
#include "tests/support/cpu_seconds.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Length(uint64_t bytes) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(bytes >> (8 * i) & 0xff);
  return out;
}

std::string File(const std::string& header, size_t data_bytes) {
  return Length(header.size()) + header + std::string(data_bytes, '\x3f');
}

std::string Entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\": {\"dtype\": \"" + dtype + "\", \"shape\": " + shape +
         ", \"data_offsets\": " + offsets + "}";
}

// Parses from a heap block of exactly the file's size, so that a sanitizer detects every read
// outside.
Result<std::vector<SafetensorsEntry>> Parse(const std::string& file) {
  const std::vector<char> exact(file.begin(), file.end());
  Result<std::vector<SafetensorsEntry>> parsed =
      ParseSafetensors(std::as_bytes(std::span(exact)), "m.safetensors");
  if (!parsed.ok()) return parsed;
  for (const SafetensorsEntry& entry : *parsed) {
    const auto* begin = reinterpret_cast<const std::byte*>(exact.data());
    EXPECT_GE(entry.bytes.data(), begin);
    EXPECT_LE(entry.bytes.data() + entry.bytes.size(), begin + exact.size());
  }
  return parsed;
}

TEST(Safetensors, FindsEveryTypeAndShape) {
  const auto parsed = Parse(File(
      "{\"__metadata__\": {\"format\": \"pt\"}, " + Entry("b", "F32", "[2, 1]", "[4, 12]") + ", " +
          Entry("a", "BF16", "[2]", "[0, 4]") + ", " + Entry("empty", "F16", "[0, 7]", "[12, 12]") +
          ", " + Entry("scalar", "I64", "[]", "[12, 20]") + "}  ",
      20));
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  ASSERT_EQ(parsed->size(), 4U);
  EXPECT_EQ((*parsed)[0].name, "a");
  EXPECT_EQ((*parsed)[1].name, "b");
  EXPECT_EQ((*parsed)[1].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ((*parsed)[1].bytes.size(), 8U);
  EXPECT_EQ((*parsed)[1].bytes.data() - (*parsed)[0].bytes.data(), 4);
  EXPECT_EQ((*parsed)[3].dtype, "I64");
}

struct Corruption {
  const char* what;
  std::string file;
  Code code;
  std::string message;  // a part of it
};

TEST(Safetensors, RefusesCorruptFiles) {
  const std::string good = Entry("a", "F32", "[2]", "[0, 8]");
  const Code bad = Code::kInvalidArgument;
  const std::string deep(100000, '[');
  const std::vector<Corruption> corruptions = {
      {"empty", "", Code::kDataLoss, "no header length"},
      {"half a length", std::string(7, '\0'), Code::kDataLoss, "no header length"},
      {"header of no bytes", Length(0), bad, "not well-formed JSON"},
      {"header cut", File("{" + good + "}", 0).substr(0, 30), Code::kDataLoss, "its header"},
      {"a pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", bad,
       "git lfs pull"},
      {"header of 2^64 - 1", Length(~uint64_t{0}) + "{}", bad, "more than"},
      {"header above the limit", Length((32 << 20) + 1) + "{}", bad, "more than 33554432"},
      {"header of 2^63", Length(uint64_t{1} << 63) + "{}", bad, "more than"},
      {"header one longer than the file", Length(3) + "{}", Code::kDataLoss, "its header"},
      {"data cut", File("{" + good + "}", 7), Code::kDataLoss, "a.data_offsets: ends at byte 8"},
      {"no JSON", File("no", 0), bad, "not well-formed JSON"},
      {"no UTF-8", File("{\"\xff\xfe\": 1}", 0), bad, "not well-formed JSON"},
      {"JSON cut", File("{" + good, 8), bad, "not well-formed JSON"},
      {"two JSON values", File("{}{}", 0), bad, "not well-formed JSON"},
      {"an array", File("[]", 0), bad, "not a JSON object"},
      {"a null", File("null", 0), bad, "not a JSON object"},
      {"nested without end", File(deep, 0), bad, "nested deeper than 16"},
      {"nested too deeply", File("{\"a\": " + deep + std::string(100000, ']') + "}", 0), bad,
       "nested deeper than 16"},
      {"a name twice", File("{" + good + ", " + good + "}", 8), bad, "a is given twice"},
      {"a field twice",
       File("{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"shape\": [2], "
            "\"data_offsets\": [0, 8]}}",
            8),
       bad, "a.shape is given twice"},
      {"an entry that is not an object", File("{\"a\": 3}", 0), bad, "a is 3, must be an object"},
      {"no dtype", File("{\"a\": {\"shape\": [2], \"data_offsets\": [0, 8]}}", 8), bad,
       "a.dtype is missing"},
      {"dtype a number",
       File("{\"a\": {\"dtype\": 7, \"shape\": [2], \"data_offsets\": [0, 8]}}", 8), bad,
       "a.dtype is 7"},
      {"dtype unknown", File("{" + Entry("a", "F4", "[2]", "[0, 8]") + "}", 8),
       Code::kUnimplemented, "a.dtype is \"F4\""},
      {"no shape", File("{\"a\": {\"dtype\": \"F32\", \"data_offsets\": [0, 8]}}", 8), bad,
       "a.shape"},
      {"shape a number", File("{" + Entry("a", "F32", "2", "[0, 8]") + "}", 8), bad, "a.shape"},
      {"shape negative", File("{" + Entry("a", "F32", "[-2]", "[0, 8]") + "}", 8), bad,
       "a.shape[0]"},
      {"shape fractional", File("{" + Entry("a", "F32", "[2.0]", "[0, 8]") + "}", 8), bad,
       "a.shape[0]"},
      {"shape of 2^63", File("{" + Entry("a", "F32", "[9223372036854775808]", "[0, 8]") + "}", 8),
       bad, "a.shape[0]"},
      {"shape overflows to the right size",
       File("{" + Entry("a", "F32", "[4611686018427387905, 2, 2]", "[0, 16]") + "}", 16), bad,
       "a.shape: overflows"},
      {"shape of many dimensions",
       File("{" + Entry("a", "F32", "[1,1,1,1,1,1,1,1,2]", "[0, 8]") + "}", 8), bad, "a.shape"},
      {"no offsets", File("{\"a\": {\"dtype\": \"F32\", \"shape\": [2]}}", 8), bad,
       "a.data_offsets"},
      {"one offset", File("{" + Entry("a", "F32", "[2]", "[8]") + "}", 8), bad, "a.data_offsets"},
      {"three offsets", File("{" + Entry("a", "F32", "[2]", "[0, 8, 8]") + "}", 8), bad,
       "a.data_offsets"},
      {"offsets as words", File("{" + Entry("a", "F32", "[2]", "[\"0\", \"8\"]") + "}", 8), bad,
       "a.data_offsets"},
      {"offsets negative", File("{" + Entry("a", "F32", "[2]", "[-8, 0]") + "}", 8), bad,
       "a.data_offsets"},
      {"offsets swapped", File("{" + Entry("a", "F32", "[2]", "[8, 0]") + "}", 8), bad,
       "a.data_offsets"},
      {"offsets of another size", File("{" + Entry("a", "F32", "[3]", "[0, 8]") + "}", 8), bad,
       "a.data_offsets: span 8 bytes, shape and dtype ask for 12"},
      {"offsets far outside",
       File("{" + Entry("a", "F32", "[2]", "[9223372036854775792, 9223372036854775800]") + "}", 8),
       Code::kDataLoss, "a.data_offsets: ends at byte"},
      {"overlap", File("{" + good + ", " + Entry("b", "F32", "[2]", "[4, 12]") + "}", 12), bad,
       "b: overlaps"},
      {"the same bytes twice",
       File("{" + good + ", " + Entry("b", "F32", "[2]", "[0, 8]") + "}", 8), bad, "overlaps"},
      {"gap", File("{" + good + ", " + Entry("b", "F32", "[2]", "[12, 20]") + "}", 20), bad,
       "b: a gap"},
      {"gap at the front", File("{" + Entry("a", "F32", "[2]", "[4, 12]") + "}", 12), bad,
       "a: a gap"},
      {"bytes after the last", File("{" + good + "}", 9), bad, "1 bytes after"},
  };
  for (const Corruption& corruption : corruptions) {
    const auto parsed = Parse(corruption.file);
    ASSERT_FALSE(parsed.ok()) << corruption.what;
    EXPECT_EQ(parsed.status().code(), corruption.code)
        << corruption.what << ": " << parsed.status().ToString();
    EXPECT_THAT(parsed.status().message(),
                AllOf(HasSubstr("m.safetensors"), HasSubstr(corruption.message)))
        << corruption.what;
  }
}

TEST(Safetensors, ErrorsEscapeHostileNames) {
  const auto parsed = Parse(File("{\"x\\n\\u0007" + std::string(5000, 'y') + "\": 1}", 0));
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.status().message(), HasSubstr("x??yyy"));
  EXPECT_LT(parsed.status().message().size(), 300U);
}

TEST(Safetensors, SurvivesEveryTruncationAndRandomDamage) {
  const std::string file = File("{" + Entry("a", "F32", "[2]", "[0, 8]") + ", " +
                                    Entry("b", "BF16", "[2, 3]", "[8, 20]") + "}",
                                20);
  ASSERT_TRUE(Parse(file).ok());
  for (size_t n = 0; n < file.size(); ++n) EXPECT_FALSE(Parse(file.substr(0, n)).ok()) << n;
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = file;
    for (uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
      damaged[random() % (file.size() - 20)] = static_cast<char>(random());
    }
    (void)Parse(damaged);  // has its own expectations: accepted tensors are within the file
  }
}

// CPU seconds of this thread, the minimum of three runs, to read the header of a file with many
// tensors.
double SecondsToRead(int tensors) {
  std::string header = "{";
  for (int i = 0; i < tensors; ++i) {
    header +=
        (i == 0 ? "" : ",") + Entry("layers." + std::to_string(i), "U8", "[1]",
                                    "[" + std::to_string(i) + "," + std::to_string(i + 1) + "]");
  }
  const std::string file = File(header + "}", static_cast<size_t>(tensors));
  return LeastCpuSeconds(
      [&] { EXPECT_TRUE(ParseSafetensors(std::as_bytes(std::span(file)), "m").ok()); });
}

// 8 times the tensors may take 8 times as long, with a factor of three for cache effects; a parser
// that walks all previous tensors at the end of each takes 64 times as long.
TEST(Safetensors, TakesLinearTimeInTensors) {
  EXPECT_LT(SecondsToRead(8000), 3 * 8 * SecondsToRead(1000));
}

TEST(Checkpoint, ViewsMappedBytesWithoutCopying) {
  const TempDirectory directory;
  directory.Write("model.safetensors", File("{" + Entry("a", "F32", "[2]", "[0, 8]") + "}", 0) +
                                           std::string("\0\0\x80\x3f\0\0\0\xc0", 8));
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  EXPECT_EQ(checkpoint->size(), 1U);
  const Result<TensorView> a = checkpoint->Find("a");
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->Describe(), "[2] f32");
  EXPECT_EQ(LoadElement(*a, 0), 1.f);
  EXPECT_EQ(LoadElement(*a, 1), -2.f);
}

TEST(Checkpoint, NamesMissingOrMistypedTensor) {
  const TempDirectory directory;
  directory.Write("model.safetensors", File("{" + Entry("a", "I64", "[1]", "[0, 8]") + "}", 8));
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->Find("b").status().code(), Code::kNotFound);
  EXPECT_THAT(checkpoint->Find("b").status().message(), HasSubstr("no tensor b"));
  EXPECT_EQ(checkpoint->Find("a").status().code(), Code::kUnimplemented);
  EXPECT_THAT(checkpoint->Find("a").status().message(), HasSubstr("a is I64"));
}

TEST(Checkpoint, RefusesWhatIsNotAFile) {
  const TempDirectory directory;
  EXPECT_EQ(Checkpoint::Open(directory.path()).status().code(), Code::kNotFound);
  EXPECT_EQ(Checkpoint::Open(directory.path() / "none").status().code(), Code::kNotFound);
  std::filesystem::create_directory(directory.path() / "model.safetensors");
  EXPECT_EQ(Checkpoint::Open(directory.path()).status().code(), Code::kInvalidArgument);
  std::filesystem::remove(directory.path() / "model.safetensors");
  ASSERT_EQ(mkfifo((directory.path() / "model.safetensors").c_str(), 0600), 0);
  EXPECT_EQ(Checkpoint::Open(directory.path()).status().code(), Code::kInvalidArgument);
}

class Shards : public ::testing::Test {
 protected:
  Status OpenWithIndex(const std::string& index) {
    directory_.Write("model.safetensors.index.json", index);
    return Checkpoint::Open(directory_.path()).status();
  }
  void SetUp() override {
    directory_.Write("one.safetensors", File("{" + Entry("a", "F32", "[2]", "[0, 8]") + "}", 8));
    directory_.Write("two.safetensors", File("{" + Entry("b", "F32", "[2]", "[0, 8]") + "}", 8));
  }
  TempDirectory directory_;
};

TEST_F(Shards, AreReadTogether) {
  directory_.Write("model.safetensors.index.json",
                   R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  EXPECT_TRUE(checkpoint->Has("a"));
  EXPECT_TRUE(checkpoint->Has("b"));
}

TEST_F(Shards, MustStayInTheDirectory) {
  const TempDirectory outside;
  outside.Write("x.safetensors", File("{" + Entry("a", "F32", "[2]", "[0, 8]") + "}", 8));
  const std::string absolute = (outside.path() / "x.safetensors").string();
  for (const std::string& name :
       {absolute, "../" + outside.path().filename().string() + "/x.safetensors",
        std::string("./one.safetensors"), std::string("..\\\\one.safetensors"), std::string(""),
        std::string("."), std::string(".."), std::string("one.safetensors\\u0000")}) {
    const Status status = OpenWithIndex("{\"weight_map\": {\"a\": \"" + name + "\"}}");
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), HasSubstr("index.json: weight_map.a is \"")) << name;
  }
}

TEST_F(Shards, MustAgreeWithTheIndex) {
  EXPECT_EQ(OpenWithIndex(R"({"weight_map": {"a": "three.safetensors"}})").code(), Code::kNotFound);
  const Status missing = OpenWithIndex(R"({"weight_map": {"c": "one.safetensors"}})");
  EXPECT_EQ(missing.code(), Code::kInvalidArgument);
  EXPECT_THAT(missing.message(), HasSubstr("c: not in one.safetensors"));
  for (const char* index : {"{}", "[]", R"({"weight_map": {}})", R"({"weight_map": []})",
                            R"({"weight_map": {"a": 3}})", "{"}) {
    EXPECT_EQ(OpenWithIndex(index).code(), Code::kInvalidArgument) << index;
  }
}

TEST_F(Shards, MustNotHoldATensorTwice) {
  directory_.Write("two.safetensors", File("{" + Entry("a", "F32", "[2]", "[0, 8]") + "}", 8));
  const Status twice =
      OpenWithIndex(R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  EXPECT_EQ(twice.code(), Code::kInvalidArgument);
  EXPECT_THAT(twice.message(), HasSubstr("two.safetensors: a: is in another shard too"));
}

}  // namespace
}  // namespace outrider
