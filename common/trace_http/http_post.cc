#include "common/trace_http/http_post.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "common/base/version.h"

namespace outrider {
namespace {

long Milliseconds(Duration time) {
  return static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

// libcurl's callback. What is beyond the bound is read and not kept.
size_t Keep(const char* data, size_t size, size_t count, void* out) {
  auto* const body = static_cast<std::string*>(out);
  body->append(data, std::min(size * count, HttpPost::kMaxAnswerBytes - body->size()));
  return size * count;
}

}  // namespace

Status CheckHttpUrl(const std::string& url) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), curl_url_cleanup);
  const auto has = [&parsed](CURLUPart part) {
    char* text = nullptr;
    const bool found = curl_url_get(parsed.get(), part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return found;
  };
  // curl also takes "host:port", which would be plain HTTP.
  const bool http = url.rfind("http://", 0) == 0 || url.rfind("https://", 0) == 0;
  if (!http || parsed == nullptr ||
      curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) {
    return InvalidArgument("\"" + url + "\" is no URL such as http://localhost:4318/v1/traces");
  }
  if (has(CURLUPART_USER) || has(CURLUPART_PASSWORD)) {
    return InvalidArgument("the URL has a user or a password, which are not supported");
  }
  return Status();
}

struct HttpPost::Handles {
  ~Handles() {
    curl_slist_free_all(headers);
    if (easy != nullptr) curl_easy_cleanup(easy);
    if (multi != nullptr) curl_multi_cleanup(multi);
  }

  CURLM* multi = nullptr;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  std::array<char, CURL_ERROR_SIZE> error{};
  std::string body;
};

Result<std::unique_ptr<HttpPost>> HttpPost::Open(const std::string& url,
                                                 const std::string& content_type) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  OUTRIDER_TRY(CheckHttpUrl(url));
  auto h = std::make_unique<Handles>();
  h->multi = curl_multi_init();
  h->easy = curl_easy_init();
  h->headers = curl_slist_append(nullptr, ("Content-Type: " + content_type).c_str());
  // A large body does not wait for "100 Continue".
  if (h->headers != nullptr) curl_slist_append(h->headers, "Expect:");
  if (ready != CURLE_OK || h->multi == nullptr || h->easy == nullptr || h->headers == nullptr) {
    return ResourceExhausted("libcurl cannot be set up");
  }
  CURL* const e = h->easy;
  curl_easy_setopt(e, CURLOPT_URL, url.c_str());
  curl_easy_setopt(e, CURLOPT_HTTPHEADER, h->headers);
  curl_easy_setopt(e, CURLOPT_USERAGENT, (std::string("outrider/") + kVersion).c_str());
  curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
  // OpenSSL's variable, which libcurl does not read by itself.
  if (const char* const ca = std::getenv("SSL_CERT_FILE"); ca != nullptr && *ca != '\0') {
    curl_easy_setopt(e, CURLOPT_CAINFO, ca);
  }
  curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(kConnectTime));
  curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, Milliseconds(kWholeTime));
  curl_easy_setopt(e, CURLOPT_ERRORBUFFER, h->error.data());
  curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, Keep);
  curl_easy_setopt(e, CURLOPT_WRITEDATA, &h->body);
  return std::unique_ptr<HttpPost>(new HttpPost(std::move(h)));
}

HttpPost::HttpPost(std::unique_ptr<Handles> handles) : handles_(std::move(handles)) {}
HttpPost::~HttpPost() = default;

void HttpPost::Wake() { curl_multi_wakeup(handles_->multi); }

Result<HttpPost::Answer> HttpPost::Send(const std::string& body,
                                        const std::function<bool()>& give_up) {
  Handles& h = *handles_;
  h.body.clear();
  h.error[0] = '\0';
  curl_easy_setopt(h.easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(h.easy, CURLOPT_POSTFIELDS, body.c_str());
  if (curl_multi_add_handle(h.multi, h.easy) != CURLM_OK) return Unavailable("libcurl failed");
  CURLcode code = CURLE_ABORTED_BY_CALLBACK;
  constexpr int kLookMs = 100;
  int running = 1;
  bool gave_up = false;
  while (running > 0 && !gave_up) {
    if (curl_multi_perform(h.multi, &running) != CURLM_OK) break;
    if (running > 0) curl_multi_poll(h.multi, nullptr, 0, kLookMs, nullptr);
    gave_up = running > 0 && give_up();
  }
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(h.multi, &left)) {
    if (message->msg == CURLMSG_DONE) code = message->data.result;
  }
  curl_multi_remove_handle(h.multi, h.easy);
  if (gave_up) return Unavailable("no answer in time");
  if (code != CURLE_OK) {
    return Unavailable(h.error[0] != '\0' ? h.error.data() : curl_easy_strerror(code));
  }
  long status = 0;
  curl_easy_getinfo(h.easy, CURLINFO_RESPONSE_CODE, &status);
  curl_off_t seconds = 0;
  curl_easy_getinfo(h.easy, CURLINFO_RETRY_AFTER, &seconds);
  return Answer{.code = static_cast<int>(status),
                .body = std::move(h.body),
                .retry_after = std::chrono::seconds(
                    std::clamp<curl_off_t>(seconds, 0, kMaxRetryAfter.count()))};
}

}  // namespace outrider
