#include "common/trace/tracer.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/trace/file_exporter.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

class TracerTest : public ::testing::Test {
 protected:
  TracerTest() {
    std::string name = (std::filesystem::temp_directory_path() / "outrider-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~TracerTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Tracer> Open(size_t max_waiting = 256) {
    auto file =
        FileExporter::Open({.path = folder_ + "/traces.jsonl",
                            .max_bytes = 1 << 20,
                            .max_waiting = max_waiting,
                            .resource = ResourceOf("test", "one"),
                            .counts = {.on_exported = [this](size_t spans) { written_ += spans; },
                                       .on_dropped = [this](size_t spans) { dropped_ += spans; }}});
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    std::vector<std::unique_ptr<SpanExporter>> exporters;
    exporters.push_back(std::move(file).value());
    return std::make_unique<Tracer>(1, std::move(exporters));
  }
  static std::vector<Span> Spans(int count, const std::string& name = "s") {
    std::vector<Span> spans(static_cast<size_t>(count));
    for (Span& span : spans) span.name = name;
    return spans;
  }
  // The names of all spans, line by line.
  std::vector<std::vector<std::string>> Names() const {
    std::vector<std::vector<std::string>> lines;
    std::ifstream in(folder_ + "/traces.jsonl");
    for (std::string line; std::getline(in, line);) {
      std::vector<std::string>& names = lines.emplace_back();
      const Json request = Json::parse(line);
      for (const Json& span : request["resourceSpans"][0]["scopeSpans"][0]["spans"]) {
        names.push_back(span["name"]);
      }
    }
    return lines;
  }

  std::string folder_;
  std::atomic<size_t> written_ = 0, dropped_ = 0;
};

TEST_F(TracerTest, WritesRecordedSpansBeforeEnding) {
  auto tracer = Open();
  tracer->Record(Spans(3, "first"));
  tracer->Record(Spans(1, "second"));
  tracer.reset();
  EXPECT_EQ(Names(),
            (std::vector<std::vector<std::string>>{{"first", "first", "first"}, {"second"}}));
  EXPECT_EQ(written_, 4u);
  EXPECT_EQ(dropped_, 0u);
}

TEST_F(TracerTest, LinesAreBounded) {
  auto tracer = Open();
  tracer->Record(Spans(150));
  tracer.reset();
  ASSERT_EQ(Names().size(), 3u);
  EXPECT_EQ(Names()[0].size(), 64u);
  EXPECT_EQ(Names()[2].size(), 22u);
}

TEST_F(TracerTest, FullQueueDropsWithoutWaiting) {
  auto tracer = Open(/*max_waiting=*/0);  // there is never any room
  tracer->Record(Spans(2));
  tracer->Record(Spans(3));
  EXPECT_EQ(dropped_, 5u);
  tracer.reset();
  EXPECT_EQ(written_, 0u);
  EXPECT_TRUE(Names().empty());
}

TEST_F(TracerTest, EverySpanIsWrittenOrCounted) {
  auto tracer = Open(/*max_waiting=*/4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&tracer] {
      for (int j = 0; j < 200; ++j) tracer->Record(Spans(2));
    });
  }
  for (std::thread& thread : threads) thread.join();
  tracer.reset();
  EXPECT_EQ(written_ + dropped_, 4u * 200 * 2);
  size_t lines = 0;
  for (const auto& names : Names()) lines += names.size();
  EXPECT_EQ(lines, written_);
}

TEST_F(TracerTest, FullDiskLosesWholeSpans) {
  // A limit on the file's size simulates a full disk: the write fails, partly or wholly.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  auto tracer = Open();
  tracer->Record(Spans(2));
  while (written_ < 2) std::this_thread::yield();
  rlimit small = before;
  small.rlim_cur = std::filesystem::file_size(folder_ + "/traces.jsonl") + 100;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  tracer->Record(Spans(5));
  while (dropped_ < 5) std::this_thread::yield();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  tracer->Record(Spans(1, "after"));
  tracer.reset();
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(Names(), (std::vector<std::vector<std::string>>{{"s", "s"}, {"after"}}));
  EXPECT_EQ(dropped_, 5u);
}

TEST_F(TracerTest, SamplesAsManyAsItShould) {
  EXPECT_TRUE(Tracer(1, {}).Sample());
  EXPECT_FALSE(Tracer(0, {}).Sample());
  const Tracer tracer(0.25, {});
  int sampled = 0;
  for (int i = 0; i < 20000; ++i) sampled += tracer.Sample() ? 1 : 0;
  EXPECT_NEAR(sampled, 5000, 6 * 62) << "six deviations";
}

TEST_F(TracerTest, UnopenableFileIsError) {
  EXPECT_FALSE(FileExporter::Open({.path = folder_ + "/no/such", .max_bytes = 1000}).ok());
}

}  // namespace
}  // namespace outrider
