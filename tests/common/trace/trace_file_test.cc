#include "common/trace/trace_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace outrider {
namespace {

class TraceFileTest : public ::testing::Test {
 protected:
  TraceFileTest() {
    std::string name = (std::filesystem::temp_directory_path() / "outrider-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/traces.jsonl";
  }
  ~TraceFileTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<TraceFile> Open(uint64_t max_bytes) {
    auto file = TraceFile::Open(path_, max_bytes);
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    return std::move(file).value();
  }
  static std::vector<std::string> Lines(const std::string& path) {
    std::ifstream in(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  uintmax_t Bytes() const {
    uintmax_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      bytes += entry.file_size();
    }
    return bytes;
  }

  std::string folder_, path_;
};

TEST_F(TraceFileTest, NeverTakesMoreThanItsBound) {
  const auto file = Open(1000);
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(file->Append(std::string(30, static_cast<char>('a' + i % 26))).ok());
    ASSERT_LE(Bytes(), 1000u);
  }
  std::vector<std::string> all = Lines(path_ + ".1");
  for (const std::string& line : Lines(path_)) all.push_back(line);
  ASSERT_GT(all.size(), 16u) << "half of the bound is always there";
  for (size_t i = 0; i < all.size(); ++i) {
    const int number = 500 - static_cast<int>(all.size() - i);
    EXPECT_EQ(all[i], std::string(30, static_cast<char>('a' + number % 26))) << "the newest, whole";
  }
}

TEST_F(TraceFileTest, AppendsToWhatIsThere) {
  ASSERT_TRUE(Open(100)->Append("one").ok());
  ASSERT_TRUE(Open(100)->Append("two").ok());
  EXPECT_EQ(Lines(path_), (std::vector<std::string>{"one", "two"}));
  ASSERT_TRUE(Open(100)->Append(std::string(45, 'x')).ok());
  EXPECT_EQ(Lines(path_ + ".1"), (std::vector<std::string>{"one", "two"})) << "their bytes count";
}

TEST_F(TraceFileTest, RecreatesMovedFile) {
  const auto file = Open(100);
  ASSERT_TRUE(file->Append(std::string(30, 'x')).ok());
  std::filesystem::rename(path_, path_ + ".mine");
  ASSERT_TRUE(file->Append(std::string(30, 'y')).ok());
  EXPECT_EQ(Lines(path_), (std::vector<std::string>{std::string(30, 'y')}));
}

TEST_F(TraceFileTest, RefusesLineBeyondBound) {
  const auto file = Open(100);
  EXPECT_EQ(file->Append(std::string(60, 'x')).code(), Code::kResourceExhausted);
  ASSERT_TRUE(file->Append("small").ok());
  EXPECT_EQ(Lines(path_), (std::vector<std::string>{"small"}));
}

TEST_F(TraceFileTest, RefusesPathThatIsNoFile) {
  EXPECT_EQ(TraceFile::Open(folder_, 100).status().code(), Code::kUnavailable);
  EXPECT_EQ(TraceFile::Open("/dev/null", 100).status().code(), Code::kInvalidArgument);
  const auto missing = TraceFile::Open(folder_ + "/no/such", 100);
  EXPECT_NE(missing.status().message().find("No such file"), std::string::npos);
}

TEST_F(TraceFileTest, TellsNobodyElse) {
  Open(100);
  const auto others = std::filesystem::perms::others_all;
  EXPECT_EQ(std::filesystem::status(path_).permissions() & others, std::filesystem::perms::none);
}

}  // namespace
}  // namespace outrider
