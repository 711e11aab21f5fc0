#include "common/base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ostream>
#include <string>

#include "common/base/file_descriptor.h"
#include "common/base/input_file.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

Status Write(const std::string& path, const std::string& text) {
  return ReplaceFile(path, [&](std::ostream& out) { out << text; });
}

TEST(OutputFile, ReplacesOlderFile) {
  const testing::TempDir dir;
  ASSERT_TRUE(Write(dir / "file", "a longer text").ok());
  ASSERT_TRUE(Write(dir / "file", "text").ok());
  EXPECT_EQ(*ReadFile(dir / "file", 100), "text");
  EXPECT_FALSE(std::filesystem::exists(dir / "file.new"));
}

TEST(OutputFile, FailureKeepsOldFile) {
  const testing::TempDir dir;
  ASSERT_TRUE(Write(dir / "file", "old").ok());
  const Status failed = ReplaceFile(dir / "file", [](std::ostream& out) {
    out << "half of the new";
    out.setstate(std::ios::badbit);
  });
  EXPECT_EQ(failed.code(), Code::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(dir / "file.new"));
  std::filesystem::create_directory(dir / "file.new");  // which no file can replace
  EXPECT_EQ(Write(dir / "file", "new").code(), Code::kUnavailable);
  EXPECT_EQ(*ReadFile(dir / "file", 100), "old");
  EXPECT_EQ(Write(dir / "none/file", "new").code(), Code::kUnavailable);
}

// Else --out /dev/null would make a regular file of it.
TEST(OutputFile, WritesFifoDirectly) {
  const testing::TempDir dir;
  const std::string path = dir / "fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const FileDescriptor reader(open(path.c_str(), O_RDONLY | O_NONBLOCK));
  ASSERT_TRUE(Write(path, "text").ok());
  char bytes[8] = {};
  EXPECT_EQ(read(reader.get(), bytes, sizeof bytes), 4);
  EXPECT_EQ(std::string(bytes), "text");
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

}  // namespace
}  // namespace outrider
