// POST over HTTP by libcurl, one at a time, that another thread can cut short.
//
// A name is looked up on a thread of libcurl's. If that hangs, the lookup is left behind rather
// than waited for (CURLOPT_QUICK_EXIT).
//
// Servers of https are checked against the system's certificates, or those of $SSL_CERT_FILE.
//
// Thread: one; Wake: any.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

// kInvalidArgument unless it is a URL of http or https without a user and a password.
Status CheckHttpUrl(const std::string& url);

class HttpPost {
 public:
  // At most so much of an answer's body is kept.
  static constexpr size_t kMaxAnswerBytes = 64 << 10;
  static constexpr Duration kConnectTime = std::chrono::seconds(5);
  static constexpr Duration kWholeTime = std::chrono::seconds(10);
  static constexpr std::chrono::seconds kMaxRetryAfter = std::chrono::hours(1);

  struct Answer {
    int code = 0;
    std::string body;
    Duration retry_after{};  // what the server asks for, at most kMaxRetryAfter; 0: nothing
  };

  // `url`: see CheckHttpUrl.
  static Result<std::unique_ptr<HttpPost>> Open(const std::string& url,
                                                const std::string& content_type);
  ~HttpPost();

  // Blocks until there is an answer, kWholeTime is over, or `give_up`, which is asked after each
  // Wake and every tenth of a second, is true. kUnavailable: there is no answer.
  Result<Answer> Send(const std::string& body, const std::function<bool()>& give_up);
  void Wake();

 private:
  struct Handles;
  explicit HttpPost(std::unique_ptr<Handles> handles);

  const std::unique_ptr<Handles> handles_;
};

}  // namespace outrider
