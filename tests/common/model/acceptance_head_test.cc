#include "common/model/acceptance_head.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>
#include <string>

#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

std::filesystem::path File(const std::string& name) {
  static const testing::TempDir dir;
  return dir / name;
}

AcceptanceHead SomeHead(int width, int depth) {
  AcceptanceHead head{.width = width, .depth = depth, .parameters = {}};
  head.parameters.resize(ResidualMlpSize(width, depth));
  for (size_t i = 0; i < head.parameters.size(); ++i) {
    head.parameters[i] = std::sin(static_cast<float>(i) * 0.7f);
  }
  return head;
}

float Silu(float x) { return x / (1.f + std::exp(-x)); }

TEST(AcceptanceHead, IsLinearLayerAtDepthZero) {
  const AcceptanceHead head{.width = 2, .depth = 0, .parameters = {2.f, -1.f, 0.5f}};
  const std::vector<float> hidden = {1.f, 3.f, -1.f, 0.f};
  EXPECT_EQ(head.Logits(hidden), (std::vector<float>{-0.5f, -1.5f}));
}

TEST(AcceptanceHead, AddsActivatedBlockToItsInput) {
  // W = [[1, 2], [3, 4]] (out, in), b = [0.1, -0.2], w = [1, 10], c = 0.
  const AcceptanceHead head{
      .width = 2, .depth = 1, .parameters = {1.f, 3.f, 2.f, 4.f, 0.1f, -0.2f, 1.f, 10.f, 0.f}};
  const std::vector<float> hidden = {0.5f, -1.f};
  const float first = 0.5f + Silu(0.5f - 2.f + 0.1f), second = -1.f + Silu(1.5f - 4.f - 0.2f);
  ASSERT_EQ(head.Logits(hidden).size(), 1u);
  EXPECT_NEAR(head.Logits(hidden)[0], first + 10.f * second, 1e-5f);
}

TEST(AcceptanceHead, RoundTripsThroughFile) {
  for (const int depth : {0, 1, 3}) {
    const AcceptanceHead head = SomeHead(5, depth);
    ASSERT_TRUE(head.Save(File("back")).ok());
    const Result<AcceptanceHead> back = AcceptanceHead::Load(File("back"), 5);
    ASSERT_TRUE(back.ok()) << back.status().ToString();
    EXPECT_EQ(back->depth, depth);
    EXPECT_EQ(back->parameters, head.parameters);
  }
}

// A limit on the size of files simulates a full disk.
TEST(AcceptanceHead, FailedSaveKeepsOldHead) {
  const AcceptanceHead old = SomeHead(5, 1);
  ASSERT_TRUE(old.Save(File("kept")).ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status saved = SomeHead(5, 3).Save(File("kept"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(saved.code(), Code::kUnavailable);
  const Result<AcceptanceHead> back = AcceptanceHead::Load(File("kept"), 5);
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(back->parameters, old.parameters);
  EXPECT_FALSE(std::filesystem::exists(File("kept.new")));
}

TEST(AcceptanceHead, InvalidFileIsError) {
  const testing::TempDir dir;
  EXPECT_FALSE(AcceptanceHead::LoadBeside(dir.path(), 4)->has_value());
  std::filesystem::create_symlink(kAcceptanceHeadFile, dir / kAcceptanceHeadFile);
  EXPECT_FALSE(AcceptanceHead::LoadBeside(dir.path(), 4).ok()) << "a link to itself";
}

TEST(AcceptanceHead, RefusesHeadOfAnotherModel) {
  const auto error = [](const std::string& name, int width) {
    return AcceptanceHead::Load(File(name), width).status();
  };
  EXPECT_EQ(error("missing", 5).code(), Code::kNotFound);
  ASSERT_TRUE(SomeHead(5, 2).Save(File("five")).ok());
  EXPECT_NE(error("five", 6).message().find("blocks.0.weight is [5, 5]"), std::string::npos)
      << error("five", 6).message();
  AcceptanceHead broken = SomeHead(5, 1);
  broken.parameters[3] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(broken.Save(File("nan")).ok());
  EXPECT_NE(error("nan", 5).message().find("not finite"), std::string::npos);
  ASSERT_TRUE(SomeHead(5, kMaxHeadDepth + 1).Save(File("deep")).ok());
  EXPECT_NE(error("deep", 5).message().find("at most"), std::string::npos);
  std::ofstream(File("text")) << "no tensors in here at all";
  EXPECT_FALSE(error("text", 5).ok());
  std::filesystem::resize_file(File("five"), 300);
  EXPECT_FALSE(error("five", 5).ok());
}

}  // namespace
}  // namespace outrider
