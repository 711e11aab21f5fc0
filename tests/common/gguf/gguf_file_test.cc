// Valid files, and damaged or forged ones.

#include "common/gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

Result<GgufFile> Parse(const std::string& bytes) {
  return GgufFile::Parse(std::as_bytes(std::span(bytes)), "m.gguf");
}

std::string Floats(size_t count) { return std::string(count * sizeof(float), '\0'); }

// One pair and two tensors.
GgufWriter Small() {
  GgufWriter writer;
  writer.Text("general.architecture", "llama");
  writer.Tensor("a", 0, {2, 3}, Floats(6));
  writer.Tensor("b", 8, {2, 32}, std::string(68, '\1'));
  return writer;
}

TEST(GgufFile, ReadsEveryKindOfValue) {
  GgufWriter writer;
  writer.Raw("u8", 0, LittleEndian(uint8_t{200}));
  writer.Raw("i8", 1, LittleEndian(int8_t{-5}));
  writer.Raw("u16", 2, LittleEndian(uint16_t{60000}));
  writer.Raw("i16", 3, LittleEndian(int16_t{-30000}));
  writer.Uint32("u32", 4000000000u);
  writer.Int32("i32", -7);
  writer.Uint32("none", UINT32_MAX);
  writer.Int32("minus one", -1);
  writer.Float("f32", 0.5f);
  writer.Bool("yes", true);
  writer.Text("text", "words");
  writer.Raw("u64", 10, LittleEndian(UINT64_C(1) << 40));
  writer.Raw("huge", 10, LittleEndian(UINT64_MAX));
  writer.Raw("i64", 11, LittleEndian(INT64_C(-1) << 40));
  writer.Raw("f64", 12, LittleEndian(0.25));
  writer.Texts("texts", {"a", "", "bc"});
  writer.Int32s("ints", {1, -2});
  writer.Floats("floats", {0.5f, 2});
  const std::string bytes = writer.File();
  const GgufFile file = Parse(bytes).value();
  const std::vector<std::pair<const char*, int64_t>> integers = {{"u8", 200},
                                                                 {"i8", -5},
                                                                 {"u16", 60000},
                                                                 {"i16", -30000},
                                                                 {"u32", 4000000000},
                                                                 {"i32", -7},
                                                                 {"u64", INT64_C(1) << 40},
                                                                 {"i64", INT64_C(-1) << 40}};
  for (const auto& [key, value] : integers) {
    EXPECT_EQ(file.Int(key, INT64_MIN, INT64_MAX).value(), value) << key;
  }
  EXPECT_EQ(file.Number("f32").value(), 0.5);
  EXPECT_EQ(file.Number("f64").value(), 0.25);
  EXPECT_EQ(file.Number("i32").value(), -7);
  EXPECT_TRUE(file.Bool("yes").value());
  EXPECT_EQ(file.Text("text").value(), "words");
  EXPECT_EQ(file.Texts("texts").value(), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(file.Ints("ints").value(), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(file.Floats("floats").value(), (std::vector<float>{0.5f, 2}));
  EXPECT_FALSE(file.MaybeInt("absent", 0, 1).value().has_value());
  EXPECT_EQ(file.MaybeToken("u8", 201).value(), 200);
  EXPECT_FALSE(file.MaybeToken("u8", 200).ok());
  EXPECT_FALSE(file.MaybeToken("absent", 9).value().has_value());
  EXPECT_FALSE(file.MaybeToken("none", 9).value().has_value());
  EXPECT_FALSE(file.MaybeToken("minus one", 9).value().has_value());

  const auto says = [](const auto& result) { return result.status().message(); };
  EXPECT_EQ(says(file.Int("absent", 0, 1)), "m.gguf: absent is missing");
  EXPECT_EQ(says(file.Int("i32", 0, 9)), "m.gguf: i32 is -7, must be an integer from 0 to 9");
  EXPECT_EQ(says(file.Int("text", 0, 9)), "m.gguf: text must be an integer from 0 to 9");
  EXPECT_THAT(says(file.Int("huge", 0, INT64_MAX)), HasSubstr("must be an integer"));
  EXPECT_THAT(says(file.Bool("u8")), HasSubstr("must be true or false"));
  EXPECT_THAT(says(file.Texts("ints")), HasSubstr("must be an array of strings"));
  EXPECT_THAT(says(file.Ints("texts")), HasSubstr("must be an array of integers"));
  EXPECT_THAT(says(file.Floats("text")), HasSubstr("must be an array"));
}

TEST(GgufFile, GivesTensorsWithRowsFirst) {
  const std::string bytes = Small().File();
  const GgufFile file = Parse(bytes).value();
  ASSERT_EQ(file.tensors().size(), 2u);
  const GgufTensor* const b = file.Tensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->type, GgmlType::kQ80);
  EXPECT_EQ(b->shape, (std::vector<int64_t>{2, 32}));
  EXPECT_EQ(b->bytes.size(), 68u);
  EXPECT_EQ(std::to_integer<int>(b->bytes[0]), 1);
  EXPECT_EQ(file.Tensor("c"), nullptr);
}

TEST(GgufFile, RefusesEveryTruncation) {
  const std::string bytes = Small().File();
  // The last tensor's bytes are padded to the alignment; without the padding nothing is missing.
  for (size_t size = 0; size + 28 < bytes.size(); ++size) {
    const Status status = Parse(bytes.substr(0, size)).status();
    EXPECT_EQ(status.code(), Code::kDataLoss) << size << ": " << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr("m.gguf: "));
  }
}

struct Hostile {
  const char* name;
  std::string bytes;
  Code code;
  const char* words;
};

std::string Header(uint64_t tensors, uint64_t pairs, uint32_t version = 3) {
  return "GGUF" + LittleEndian(version) + LittleEndian(tensors) + LittleEndian(pairs);
}

// `text` with the first occurrence of `from` replaced.
std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

std::string OneTensor(const std::string& rest) {
  return Header(1, 0) + GgufString("t") + rest + std::string(256, '\0');
}

std::string Shape(const std::vector<uint64_t>& sides) {
  std::string bytes = LittleEndian(static_cast<uint32_t>(sides.size()));
  for (const uint64_t side : sides) bytes += LittleEndian(side);
  return bytes;
}

std::string Place(uint32_t type, uint64_t offset) {
  return LittleEndian(type) + LittleEndian(offset);
}

std::string WithAlignment(uint32_t alignment) {
  GgufWriter writer = Small();
  writer.Uint32("general.alignment", alignment);
  return writer.File();
}

std::vector<Hostile> HostileHeaders() {
  const uint64_t huge = UINT64_C(1) << 60;
  return {
      {"NoMagic", "GGML" + LittleEndian(uint64_t{3}), Code::kInvalidArgument, "no GGUF file"},
      {"VersionOne", Header(0, 0, 1), Code::kUnimplemented, "version 1"},
      {"BigEndian", Header(0, 0, 0x03000000), Code::kUnimplemented, "big-endian"},
      {"ManyTensors", Header(huge, 0), Code::kInvalidArgument, "1152921504606846976 tensors"},
      {"ManyPairs", Header(0, huge), Code::kInvalidArgument, "pairs of metadata, at most 65536"},
      {"PairsBeyondTheFile", Header(0, 1000), Code::kDataLoss, "ends within a key"},
      {"LongKey", Header(0, 1) + LittleEndian(huge), Code::kInvalidArgument, "a key of"},
      {"EmptyKey", Header(0, 1) + GgufString(""), Code::kInvalidArgument, "is empty"},
      {"LongString",
       Header(0, 1) + GgufString("k") + LittleEndian(uint32_t{8}) + LittleEndian(huge),
       Code::kInvalidArgument, "m.gguf: k: a string of"},
      {"StringBeyondTheFile",
       Header(0, 1) + GgufString("k") + LittleEndian(uint32_t{8}) + LittleEndian(uint64_t{5}) +
           "ab",
       Code::kDataLoss, "k: ends within a string"},
      {"UnknownValueType", Header(0, 1) + GgufString("k") + LittleEndian(uint32_t{13}) + "aaaaaaaa",
       Code::kInvalidArgument, "k: is of the unknown type number 13"},
      {"NestedArrays",
       Header(0, 1) + GgufString("k") + LittleEndian(uint32_t{9}) + LittleEndian(uint32_t{9}) +
           LittleEndian(uint64_t{1}),
       Code::kUnimplemented, "k: is an array of arrays"},
      {"LongArray",
       Header(0, 1) + GgufString("k") + LittleEndian(uint32_t{9}) + LittleEndian(uint32_t{4}) +
           LittleEndian(huge),
       Code::kDataLoss, "k: is an array of 1152921504606846976 elements"},
      {"LongArrayOfStrings",
       Header(0, 1) + GgufString("k") + LittleEndian(uint32_t{9}) + LittleEndian(uint32_t{8}) +
           LittleEndian(huge) + GgufString("a"),
       Code::kDataLoss, "k: ends within a string of an array"},
      {"UnknownElementType",
       Header(0, 1) + GgufString("k") + LittleEndian(uint32_t{9}) + LittleEndian(uint32_t{77}) +
           LittleEndian(uint64_t{1}),
       Code::kInvalidArgument, "unknown type number 77"},
      {"TwoPairsOfAKey",
       Header(0, 2) + GgufString("k") + LittleEndian(uint32_t{0}) + "a" + GgufString("k") +
           LittleEndian(uint32_t{0}) + "a",
       Code::kInvalidArgument, "k: is in the metadata twice"},
      {"AlignmentZero", WithAlignment(0), Code::kInvalidArgument, "general.alignment is 0"},
      {"AlignmentOdd", WithAlignment(24), Code::kInvalidArgument, "a power of two"},
      {"AlignmentHuge", WithAlignment(1u << 31), Code::kInvalidArgument, "general.alignment"},
  };
}

std::vector<Hostile> HostileTensors() {
  const uint64_t huge = UINT64_C(1) << 60;
  const std::string fine = Small().File();
  return {
      {"LongName", Header(1, 0) + LittleEndian(huge), Code::kInvalidArgument, "a tensor's name of"},
      {"NoDimensions", OneTensor(Shape({}) + Place(0, 0)), Code::kInvalidArgument,
       "t: has 0 dimensions"},
      {"FiveDimensions", OneTensor(Shape({1, 1, 1, 1, 1}) + Place(0, 0)), Code::kInvalidArgument,
       "t: has 5 dimensions"},
      {"EmptyDimension", OneTensor(Shape({4, 0}) + Place(0, 0)), Code::kInvalidArgument,
       "t: has a dimension of 0"},
      {"OverflowingDimensions", OneTensor(Shape({huge, huge}) + Place(0, 0)),
       Code::kInvalidArgument, "which overflows"},
      {"NegativeDimension", OneTensor(Shape({UINT64_MAX}) + Place(0, 0)), Code::kInvalidArgument,
       "which overflows"},
      {"HugeTensor", OneTensor(Shape({huge}) + Place(0, 0)), Code::kDataLoss, "t: 11529215"},
      {"OverflowingBytes", OneTensor(Shape({UINT64_C(1) << 62}) + Place(0, 0)), Code::kDataLoss,
       "t: "},
      {"UnknownType", OneTensor(Shape({32}) + Place(99, 0)), Code::kUnimplemented,
       "t is of the type number 99; types that are read: F32"},
      {"OtherType", OneTensor(Shape({256}) + Place(11, 0)), Code::kUnimplemented, "t is Q3_K"},
      {"BrokenBlock", OneTensor(Shape({33}) + Place(8, 0)), Code::kInvalidArgument,
       "rows of 33 elements as Q8_0, whose blocks have 32"},
      {"OffsetBeyondTheFile", OneTensor(Shape({1}) + Place(0, 1024)), Code::kDataLoss,
       "at byte 1024 of the data"},
      {"HugeOffset", OneTensor(Shape({1}) + Place(0, UINT64_MAX - 31)), Code::kDataLoss,
       "of the data"},
      {"MisalignedOffset", OneTensor(Shape({1}) + Place(0, 4)), Code::kInvalidArgument,
       "its offset 4 is not a multiple of the alignment, 32"},
      {"TwoTensorsOfAName", Replaced(fine, GgufString("b"), GgufString("a")),
       Code::kInvalidArgument, "a: two tensors have this name"},
      {"Overlap", Replaced(fine, Place(8, 32), Place(8, 0)), Code::kInvalidArgument, "overlaps"},
  };
}

class HostileGguf : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileGguf, IsRefusedByFileAndFault) {
  const Status status = Parse(GetParam().bytes).status();
  EXPECT_EQ(status.code(), GetParam().code) << status.ToString();
  EXPECT_THAT(status.message(), ::testing::StartsWith("m.gguf: "));
  EXPECT_THAT(status.message(), HasSubstr(GetParam().words));
}

std::string NameOf(const ::testing::TestParamInfo<Hostile>& param) { return param.param.name; }

INSTANTIATE_TEST_SUITE_P(Headers, HostileGguf, ::testing::ValuesIn(HostileHeaders()), NameOf);
INSTANTIATE_TEST_SUITE_P(Tensors, HostileGguf, ::testing::ValuesIn(HostileTensors()), NameOf);

TEST(GgufFile, RefusesFloatsThatAreNotFinite) {
  GgufWriter writer;
  writer.Float("nan", std::nanf(""));
  writer.Floats("list", {1, std::numeric_limits<float>::infinity()});
  const std::string bytes = writer.File();
  const GgufFile file = Parse(bytes).value();
  EXPECT_THAT(file.Number("nan").status().message(), HasSubstr("must be a finite number"));
  EXPECT_THAT(file.Floats("list").status().message(), HasSubstr("not finite, number 1"));
}

TEST(GgufFile, IsFoundByFileOrFolder) {
  const testing::TempDir folder;
  const std::filesystem::path path = folder.path();
  const auto write = [&](const std::string& name) { std::ofstream(path / name) << "x"; };
  EXPECT_FALSE(FindGgufModel(path).has_value());
  EXPECT_FALSE(FindGgufModel(path / "a.gguf").has_value());
  write("a.gguf");
  write("config.json");
  EXPECT_EQ(FindGgufModel(path), path / "a.gguf");
  EXPECT_EQ(FindGgufModel(path / "a.gguf"), path / "a.gguf");
  EXPECT_FALSE(FindGgufModel(path / "config.json").has_value());
  write("model.safetensors");
  EXPECT_FALSE(FindGgufModel(path).has_value());
  EXPECT_EQ(FindGgufModel(path / "a.gguf"), path / "a.gguf");
  std::filesystem::remove(path / "model.safetensors");
  write("b.gguf");
  EXPECT_FALSE(FindGgufModel(path).has_value());
}

}  // namespace
}  // namespace outrider
