// A plain HTTP/1.1 connection to a loopback port, with control over every byte.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace outrider::testing {

struct HttpResponse {
  int code = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // without chunk framing
};

class HttpClient {
 public:
  // `receive_buffer`: bytes that the kernel keeps for it, about; 0: the default.
  explicit HttpClient(int port, int receive_buffer = 0);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void SendRaw(std::string_view bytes);
  // `headers`: whole lines, each with its line end.
  void Send(const std::string& method, const std::string& path, const std::string& body = "",
            const std::string& headers = "");
  // nullopt: the connection ended (or nothing arrived for 60 s) before the response was complete.
  std::optional<HttpResponse> Receive();
  // Waits for some bytes; "" at the end of the connection.
  std::string ReceiveSome();
  // Waits for the connection's end, discarding what arrives. Returns false if it does not end
  // within 60 s.
  bool AwaitEnd();

 private:
  bool Fill();
  bool TakeLine(std::string* line);
  bool Take(size_t count, std::string* out);

  int fd_;
  std::string buffer_;
};

// Sends one request on a new connection; code 0 if there is no response.
HttpResponse Fetch(int port, const std::string& method, const std::string& path,
                   const std::string& body = "", const std::string& headers = "");

// The data after "data: " in a stream of events.
std::vector<std::string> EventsOf(const std::string& body);

}  // namespace outrider::testing
