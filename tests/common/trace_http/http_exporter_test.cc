#include "common/trace_http/http_exporter.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "tests/support/http_collector.h"

namespace {

// A lookup of this name ends when the test says so.
constexpr char kHangingName[] = "hanging.test";

struct Lookups {
  outrider::Mutex mu;
  std::condition_variable changed;
  int hanging OUTRIDER_GUARDED_BY(mu) = 0;
  bool released OUTRIDER_GUARDED_BY(mu) = false;

  void Hang() {
    outrider::MutexLock lock(mu);
    ++hanging;
    changed.notify_all();
    while (!released) lock.Wait(changed);
    --hanging;
    changed.notify_all();
  }
  void AwaitHanging(int count) {
    outrider::MutexLock lock(mu);
    while (hanging != count) lock.Wait(changed);
  }
  void Release() {
    outrider::MutexLock lock(mu);
    released = true;
    changed.notify_all();
  }
};

Lookups& TheLookups() {
  static auto* const lookups = new Lookups;
  return *lookups;
}

}  // namespace

// In front of the C library's, for libcurl too.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** result) {
  if (node != nullptr && std::strcmp(node, kHangingName) == 0) {
    TheLookups().Hang();
    return EAI_AGAIN;
  }
  static const auto next =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return next(node, service, hints, result);
}

namespace outrider {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using testing::HttpCollector;

class HttpExporterTest : public ::testing::Test {
 protected:
  // With time for everything that an endpoint takes, however slow the machine is.
  std::unique_ptr<SpanExporter> Open(const std::string& endpoint, size_t max_waiting = 256,
                                     Duration grace = std::chrono::minutes(1)) {
    auto exporter =
        HttpExporter::Open({.endpoint = endpoint,
                            .max_waiting = max_waiting,
                            .grace = grace,
                            .resource = {{"service.name", "test"}},
                            .counts = {.on_exported = [this](size_t spans) { exported_ += spans; },
                                       .on_dropped = [this](size_t spans) { dropped_ += spans; }}});
    EXPECT_TRUE(exporter.ok()) << exporter.status().ToString();
    return std::move(exporter).value();
  }
  static SpanBatch Spans(size_t count, const std::string& name = "s") {
    std::vector<Span> spans(count);
    for (Span& span : spans) span.name = name;
    return std::make_shared<const std::vector<Span>>(std::move(spans));
  }
  // The spans' names, of all requests.
  static std::vector<std::string> NamesIn(const std::vector<HttpCollector::Request>& requests) {
    std::vector<std::string> names;
    for (const HttpCollector::Request& request : requests) {
      const Json json = Json::parse(request.body);
      for (const Json& span : json["resourceSpans"][0]["scopeSpans"][0]["spans"]) {
        names.push_back(span["name"]);
      }
    }
    return names;
  }

  std::atomic<size_t> exported_ = 0, dropped_ = 0;
};

TEST_F(HttpExporterTest, PostsRecordedSpansBeforeClosing) {
  HttpCollector collector;
  const auto exporter = Open(collector.url());
  exporter->Record(Spans(2, "first"));
  ASSERT_TRUE(collector.Await(1));
  exporter->Record(Spans(1, "second"));
  exporter->Close();
  exporter->Record(Spans(1, "too late"));
  EXPECT_EQ(NamesIn(collector.requests()), (std::vector<std::string>{"first", "first", "second"}));
  const HttpCollector::Request request = collector.requests()[0];
  EXPECT_THAT(request.head, HasSubstr("POST /v1/traces HTTP/1.1\r\n"));
  EXPECT_THAT(request.head, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(request.body, HasSubstr(R"("key":"service.name","value":{"stringValue":"test"})"));
  EXPECT_EQ(exported_, 3u);
  EXPECT_EQ(dropped_, 1u);
}

TEST_F(HttpExporterTest, LargeBatchesAreSeveralRequests) {
  HttpCollector collector;
  const auto exporter = Open(collector.url());
  exporter->Record(Spans(HttpExporter::kSpansOfRequest + 1));
  exporter->Close();
  EXPECT_EQ(collector.requests().size(), 2u);
  EXPECT_EQ(exported_, HttpExporter::kSpansOfRequest + 1);
}

TEST_F(HttpExporterTest, CountsRejectedSpansAsDropped) {
  for (const char* count : {"\"2\"", "2"}) {
    exported_ = dropped_ = 0;
    HttpCollector collector([count](int) {
      return HttpCollector::Answer{
          .body = std::string(R"({"partialSuccess":{"errorMessage":"too old","rejectedSpans":)") +
                  count + "}}"};
    });
    const auto exporter = Open(collector.url());
    exporter->Record(Spans(5));
    exporter->Close();
    EXPECT_EQ(exported_, 3u);
    EXPECT_EQ(dropped_, 2u);
  }
}

TEST_F(HttpExporterTest, UnreadableAnswersRejectNothing) {
  HttpCollector collector([](int before) {
    const std::vector<std::string> bodies = {"",
                                             "ok",
                                             "[1]",
                                             R"({"partialSuccess":null})",
                                             R"({"partialSuccess":{"rejectedSpans":-3}})",
                                             R"({"partialSuccess":{"rejectedSpans":"many"}})"};
    return HttpCollector::Answer{.body = bodies[static_cast<size_t>(before) % bodies.size()]};
  });
  const auto exporter = Open(collector.url());
  for (size_t i = 1; i <= 6; ++i) {
    exporter->Record(Spans(1));
    ASSERT_TRUE(collector.Await(i));
  }
  exporter->Close();
  EXPECT_EQ(exported_, 6u);
  EXPECT_EQ(dropped_, 0u);
}

// What says that spans were rejected begins beyond what is kept.
TEST_F(HttpExporterTest, KeepsBeginningOfLongAnswer) {
  HttpCollector collector([](int) {
    return HttpCollector::Answer{.body = std::string(HttpPost::kMaxAnswerBytes, ' ') +
                                         R"({"partialSuccess":{"rejectedSpans":"2"}})"};
  });
  const auto exporter = Open(collector.url());
  exporter->Record(Spans(5));
  exporter->Close();
  EXPECT_EQ(exported_, 5u);
  EXPECT_EQ(dropped_, 0u);
}

TEST_F(HttpExporterTest, BusyCollectorIsAskedAgain) {
  HttpCollector collector(
      [](int before) { return HttpCollector::Answer{.code = before == 0 ? 503 : 200}; });
  const auto exporter = Open(collector.url());
  exporter->Record(Spans(4, "kept"));
  ASSERT_TRUE(collector.Await(2));
  exporter->Close();
  EXPECT_EQ(collector.requests()[0].body, collector.requests()[1].body);
  EXPECT_EQ(exported_, 4u);
  EXPECT_EQ(dropped_, 0u);
}

TEST_F(HttpExporterTest, RetryAfterIsBounded) {
  const std::vector<std::string> asked = {"7", "9223372036854775807", "-5", "soon"};
  HttpCollector collector([&asked](int before) {
    return HttpCollector::Answer{
        .code = 503, .headers = "Retry-After: " + asked[static_cast<size_t>(before)] + "\r\n"};
  });
  const auto post = HttpPost::Open(collector.url(), "application/json");
  ASSERT_TRUE(post.ok());
  const std::vector<Duration> expected = {std::chrono::seconds(7), HttpPost::kMaxRetryAfter,
                                          Duration(), Duration()};
  for (const Duration retry_after : expected) {
    const auto answer = (*post)->Send("{}", [] { return false; });
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->retry_after, retry_after);
  }
}

TEST_F(HttpExporterTest, RefusalIsFinal) {
  HttpCollector collector([](int) { return HttpCollector::Answer{.code = 400}; });
  const auto exporter = Open(collector.url());
  exporter->Record(Spans(4));
  while (dropped_ < 4) std::this_thread::yield();
  exporter->Close();
  EXPECT_EQ(collector.requests().size(), 1u);
  EXPECT_EQ(exported_, 0u);
}

TEST_F(HttpExporterTest, FullQueueDropsWithoutWaiting) {
  HttpCollector collector;
  const auto exporter = Open(collector.url(), /*max_waiting=*/0);
  exporter->Record(Spans(2));
  exporter->Record(Spans(3));
  EXPECT_EQ(dropped_, 5u);
  exporter->Close();
  EXPECT_TRUE(collector.requests().empty());
}

TEST_F(HttpExporterTest, AbsentEndpointCostsSpansOnly) {
  std::string url;
  {
    HttpCollector gone;
    url = gone.url();
  }
  const auto exporter = Open(url);
  exporter->Record(Spans(3));
  exporter->Close();
  EXPECT_EQ(dropped_, 3u);
}

TEST_F(HttpExporterTest, SilentEndpointCostsSpansOnly) {
  const int silent = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(silent, 1), 0);
  ASSERT_EQ(getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto exporter =
      Open("http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/v1/traces",
           /*max_waiting=*/256, std::chrono::milliseconds(50));
  exporter->Record(Spans(3));
  const int connection = accept(silent, nullptr, nullptr);
  exporter->Record(Spans(2));
  exporter->Close();
  EXPECT_EQ(dropped_, 5u);
  close(connection);
  close(silent);
}

// The lookup ends only after Close, so an exporter that waits for it never closes.
TEST_F(HttpExporterTest, HangingLookupIsLeftBehind) {
  const auto exporter = Open(std::string("http://") + kHangingName + ":4318/v1/traces",
                             /*max_waiting=*/256, std::chrono::milliseconds(50));
  exporter->Record(Spans(3));
  TheLookups().AwaitHanging(1);
  exporter->Close();
  EXPECT_EQ(dropped_, 3u);
  TheLookups().Release();
  TheLookups().AwaitHanging(0);
}

TEST_F(HttpExporterTest, OnlyUrlsOfHttpAreTaken) {
  for (const char* url : {"", "localhost:4318", "ftp://h/v1/traces", "file:///etc/passwd",
                          "http://", "http://user:secret@h/v1/traces", "http://h:99999999/"}) {
    const auto exporter = HttpExporter::Open({.endpoint = url});
    EXPECT_EQ(exporter.status().code(), Code::kInvalidArgument) << url;
    EXPECT_THAT(exporter.status().message(), ::testing::Not(HasSubstr("secret")));
  }
}

}  // namespace
}  // namespace outrider
