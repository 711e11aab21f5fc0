#include "common/base/input_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

std::string PathOf(const std::string& name) {
  static const testing::TempDir dir;
  return dir / name;
}

TEST(InputFile, ReadsWholeFilesUpToLimit) {
  const std::string path = PathOf("text");
  std::ofstream(path) << "four";
  EXPECT_EQ(*ReadFile(path, 4), "four");
  const Status longer = ReadFile(path, 3).status();
  EXPECT_EQ(longer.code(), Code::kInvalidArgument);
  EXPECT_NE(longer.message().find("4 bytes"), std::string::npos) << longer.message();
  std::remove(path.c_str());
  EXPECT_EQ(ReadFile(path, 4).status().code(), Code::kNotFound);
  // Such a file reports a size of 0 bytes.
  EXPECT_GT(ReadFile("/proc/self/status", 1 << 20)->size(), 100u);
  EXPECT_EQ(ReadFile("/proc/self/status", 10).status().code(), Code::kInvalidArgument);
}

// Would hang if it waited for a writer.
TEST(InputFile, RefusesWhatIsNoRegularFile) {
  const std::string fifo = PathOf("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, ::testing::TempDir(), std::string("/dev/zero")}) {
    const Status status = ReadFile(path, 1 << 20).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << path;
    EXPECT_NE(status.message().find("not a regular file"), std::string::npos) << path;
  }
  std::remove(fifo.c_str());
}

// Like a shell's <(command).
TEST(InputFile, ReadsPipesWhereAllowed) {
  const std::string fifo = PathOf("pipe");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::string text(200'000, 'x');
  const auto read = [&](size_t max_bytes) {
    std::thread writer([&] { std::ofstream(fifo) << text; });
    Result<std::string> got = ReadFile(fifo, max_bytes, InputKind::kAny);
    writer.join();
    return got;
  };
  EXPECT_EQ(*read(1 << 20), text);
  EXPECT_EQ(*read(text.size()), text);
  EXPECT_EQ(read(text.size() - 1).status().code(), Code::kInvalidArgument) << "not cut";
  std::remove(fifo.c_str());
  EXPECT_FALSE(ReadFile(::testing::TempDir(), 1 << 20, InputKind::kAny).ok());
}

}  // namespace
}  // namespace outrider
