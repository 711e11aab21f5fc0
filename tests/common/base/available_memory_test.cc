#include "common/base/available_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <string>

#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

class AvailableMemoryTest : public ::testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = root() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::filesystem::path root() const { return dir_.path(); }

 private:
  testing::TempDir dir_;
};

TEST_F(AvailableMemoryTest, IsUnlimitedWhereNothingIsKnown) {
  EXPECT_EQ(AvailableMemory(root()), std::numeric_limits<int64_t>::max());
}

TEST_F(AvailableMemoryTest, CountsTheMachinesMemoryAndSwap) {
  Write("proc/meminfo", "MemTotal: 900 kB\nMemAvailable:     500 kB\nSwapFree:  20 kB\n");
  EXPECT_EQ(AvailableMemory(root()), 520 << 10);
}

TEST_F(AvailableMemoryTest, IsWhatTheTightestGroupLeaves) {
  Write("proc/meminfo", "MemAvailable: 500 kB\n");
  Write("proc/self/cgroup", "1:cpu:/other\n0::/pods/outrider\n");
  Write("sys/fs/cgroup/pods/outrider/memory.max", "max\n");
  Write("sys/fs/cgroup/pods/outrider/memory.current", "1000\n");
  EXPECT_EQ(AvailableMemory(root()), 500 << 10);
  Write("sys/fs/cgroup/pods/memory.max", "100000\n");
  Write("sys/fs/cgroup/pods/memory.current", "70000\n");
  EXPECT_EQ(AvailableMemory(root()), 30000);
  Write("sys/fs/cgroup/pods/memory.stat",
        "anon 30000\nfile 99000\ninactive_file 20000\nactive_file 5000\n");
  EXPECT_EQ(AvailableMemory(root()), 55000) << "page cache is given up";
  Write("sys/fs/cgroup/pods/memory.current", "200000\n");
  EXPECT_EQ(AvailableMemory(root()), 0);
}

TEST_F(AvailableMemoryTest, KnowsTheFirstVersionOfGroups) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/pod\n4:memory:/pod\n0::/\n");
  Write("sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "100000\n");
  Write("sys/fs/cgroup/memory/pod/memory.usage_in_bytes", "70000\n");
  Write("sys/fs/cgroup/memory/pod/memory.stat",
        "active_file 1\ntotal_inactive_file 2000\ntotal_active_file 500\n");
  EXPECT_EQ(AvailableMemory(root()), 32500);
}

TEST_F(AvailableMemoryTest, SaysSomethingOfThisMachine) { EXPECT_GT(AvailableMemory(), 1 << 20); }

}  // namespace
}  // namespace outrider
