// A collector of traces on a free loopback port: takes POSTs and answers them as a test says.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace outrider::testing {

class HttpCollector {
 public:
  struct Answer {
    int code = 200;
    std::string body = "{}";
    std::string headers = "";  // whole lines, each with its end
  };
  // Called for each request, one at a time, with how many came before.
  using AnswerFn = std::function<Answer(int before)>;

  // nullptr: every answer is 200 and "{}".
  explicit HttpCollector(AnswerFn answer = nullptr);
  ~HttpCollector();
  HttpCollector(const HttpCollector&) = delete;
  HttpCollector& operator=(const HttpCollector&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1/traces"; }
  struct Request {
    std::string head;  // with its end
    std::string body;
  };
  std::vector<Request> requests() OUTRIDER_EXCLUDES(mu_);
  // Waits (60 s at most) for so many requests. False: they did not come.
  bool Await(size_t count) OUTRIDER_EXCLUDES(mu_);

 private:
  void Serve();
  // The next request of a connection; false at its end.
  static bool Read(int connection, std::string* buffer, Request* request);
  void AnswerAll(int connection) OUTRIDER_EXCLUDES(mu_);

  const AnswerFn answer_;
  int listener_ = -1;
  int port_ = 0;
  Mutex mu_;
  std::condition_variable arrived_;
  std::vector<Request> requests_ OUTRIDER_GUARDED_BY(mu_);
  std::vector<int> connections_ OUTRIDER_GUARDED_BY(mu_);
  std::vector<std::thread> readers_;  // used by the thread that accepts, then by the destructor
  std::thread acceptor_;
};

}  // namespace outrider::testing
