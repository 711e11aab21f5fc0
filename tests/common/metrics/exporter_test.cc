#include "common/metrics/exporter.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "common/metrics/readiness.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The whole response to `request` on 127.0.0.1:port; "" if nobody listens.
std::string Ask(int port, const std::string& request) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
    char buffer[4096];
    ssize_t n = 0;
    while ((n = read(fd, buffer, sizeof buffer)) > 0) answer.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return answer;
}

std::string HttpGet(int port, const std::string& path) {
  return Ask(port, "GET " + path + " HTTP/1.0\r\n\r\n");
}

TEST(MetricsExporter, ServesMetricsRegisteredAnytime) {
  MetricsRegistry registry;
  registry.MakeCounter("outrider_early_total", "early", {{"model_name", "a\"b"}}).Increment(3);
  auto exporter = MetricsExporter::Start("127.0.0.1:0", registry);
  ASSERT_TRUE(exporter.ok()) << exporter.status().ToString();
  registry.MakeGauge("outrider_late", "late").Set(0.5);

  const std::string page = HttpGet((*exporter)->port(), "/metrics");
  EXPECT_THAT(page, HasSubstr("200 OK"));
  EXPECT_THAT(page, HasSubstr("outrider_early_total{model_name=\"a\\\"b\"} 3"));
  EXPECT_THAT(page, HasSubstr("outrider_late 0.5"));
}

TEST(MetricsExporter, AliasesHaveTheSameValues) {
  MetricsRegistry registry;
  Counter counter = registry.MakeCounter("outrider_a_total", "a", {{"model_name", "m"}});
  registry.MakeHistogram("outrider_b_seconds", "b", {1, 2}).Observe(1.5);
  registry.MakeGauge("outrider_c", "c").Set(1);
  auto exporter = MetricsExporter::Start("127.0.0.1:0", registry,
                                         {.names = {{"outrider_a_total", "other:a_total"},
                                                    {"outrider_b_seconds", "other:b_seconds"},
                                                    {"outrider_b_seconds", "older:b_seconds"}},
                                          .labels = {{"engine", "0"}}});
  ASSERT_TRUE(exporter.ok()) << exporter.status().ToString();
  counter.Increment(3);

  const std::string page = HttpGet((*exporter)->port(), "/metrics");
  EXPECT_THAT(page, HasSubstr("outrider_a_total{model_name=\"m\"} 3"));
  EXPECT_THAT(page, HasSubstr("# TYPE other:a_total counter\n"
                              "other:a_total{model_name=\"m\",engine=\"0\"} 3"));
  for (const char* name : {"other:b_seconds", "older:b_seconds"}) {
    EXPECT_THAT(page, HasSubstr(std::string(name) + "_count{engine=\"0\"} 1"));
    EXPECT_THAT(page, HasSubstr(std::string(name) + "_bucket{engine=\"0\",le=\"2\"} 1"));
  }
  EXPECT_THAT(page, ::testing::Not(HasSubstr(":c")));
}

TEST(MetricsExporter, ReadinessIsAPageForProbes) {
  MetricsRegistry registry;
  auto exporter = MetricsExporter::Start("127.0.0.1:0", registry);
  ASSERT_TRUE(exporter.ok()) << exporter.status().ToString();
  Readiness readiness(exporter->get(), "draining");
  const auto ready = [&] { return HttpGet((*exporter)->port(), "/ready"); };
  EXPECT_THAT(ready(), AllOf(HasSubstr("503 Service Unavailable"), HasSubstr("draining\n")));
  readiness.Set(true);
  EXPECT_THAT(ready(), AllOf(HasSubstr("200 OK"), HasSubstr("ready\n")));
  readiness.Set(false);
  EXPECT_THAT(ready(), HasSubstr("503 Service Unavailable"));
}

TEST(MetricsExporter, ServesPagesBesideTheMetrics) {
  MetricsRegistry registry;
  auto exporter = MetricsExporter::Start("127.0.0.1:0", registry);
  ASSERT_TRUE(exporter.ok()) << exporter.status().ToString();
  const int port = (*exporter)->port();
  EXPECT_THAT(HttpGet(port, "/page"), HasSubstr("404"));
  (*exporter)->AddPage("/page", [] {
    return MetricsPage{.content_type = "text/html", .headers = {{"X-Test", "1"}}, .body = "hello"};
  });
  const std::string page = HttpGet(port, "/page?x=1");
  EXPECT_THAT(page, HasSubstr("200 OK"));
  EXPECT_THAT(page, HasSubstr("Content-Type: text/html\r\n"));
  EXPECT_THAT(page, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(page, HasSubstr("X-Test: 1\r\n"));
  EXPECT_THAT(page, ::testing::EndsWith("\r\n\r\nhello"));
  for (const char* other : {"/", "/pag", "/page/", "/page/x", "/metrics/", "/metrics/x"}) {
    EXPECT_THAT(HttpGet(port, other),
                ::testing::AllOf(HasSubstr("404"), HasSubstr("there are /metrics, /page\n")))
        << other;
  }
  EXPECT_THAT(HttpGet(port, "/metrics"), HasSubstr("200 OK"));
}

TEST(MetricsExporter, AnswersOtherMethodsAndMistakes) {
  MetricsRegistry registry;
  auto exporter = MetricsExporter::Start("127.0.0.1:0", registry);
  ASSERT_TRUE(exporter.ok()) << exporter.status().ToString();
  const int port = (*exporter)->port();
  (*exporter)->AddPage("/page",
                       [] { return MetricsPage{.content_type = "text/plain", .body = "hello"}; });
  const std::string head = Ask(port, "HEAD /page HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(head, ::testing::StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(head, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(head, ::testing::EndsWith("\r\n\r\n"));
  const std::string post = Ask(port, "POST /page HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_THAT(post, ::testing::StartsWith("HTTP/1.1 405 Method Not Allowed\r\n"));
  EXPECT_THAT(post, HasSubstr("Allow: GET, HEAD\r\n"));
  EXPECT_THAT(Ask(port, "POST /other HTTP/1.1\r\n\r\n"), ::testing::StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask(port, "\x16\x03\x01 hello\r\n\r\n"), ::testing::StartsWith("HTTP/1.1 400 "));
}

TEST(MetricsExporter, TakenPortNamesItsAddress) {
  MetricsRegistry registry;
  auto first = MetricsExporter::Start("127.0.0.1:0", registry);
  ASSERT_TRUE(first.ok());
  const std::string address = "127.0.0.1:" + std::to_string((*first)->port());
  auto second = MetricsExporter::Start(address, registry);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr(address));
}

TEST(MetricsExporter, MalformedAddressIsError) {
  MetricsRegistry registry;
  EXPECT_EQ(MetricsExporter::Start("nowhere at all", registry).status().code(), Code::kUnavailable);
}

TEST(MetricsExporter, StopsListeningWhenItDies) {
  MetricsRegistry registry;
  auto exporter = MetricsExporter::Start("127.0.0.1:0", registry);
  ASSERT_TRUE(exporter.ok());
  const int port = (*exporter)->port();
  { const std::unique_ptr<MetricsExporter> dying = std::move(exporter).value(); }
  EXPECT_EQ(HttpGet(port, "/metrics"), "");
}

}  // namespace
}  // namespace outrider
