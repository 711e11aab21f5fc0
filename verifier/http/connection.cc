#include "verifier/http/connection.h"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <cstdio>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "verifier/engine/request_record.h"

namespace outrider {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = net::ip::tcp;
using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

constexpr char kRequestIdHeader[] = "x-request-id";
constexpr size_t kWatchBytes = 4096;
// The most unparsed bytes that a connection holds. A client that sends more before its answer is
// disconnected, since its presence could no longer be observed.
constexpr size_t kMaxAheadBytes = 128 << 10;
// How long a client may still send after the last answer, unread, and take to answer TLS's end:
// closing at once would reset the connection, and the answer with it.
constexpr auto kLinger = std::chrono::seconds(2);

// A body that grows as it arrives. http::string_body reserves the announced size, which costs the
// client nothing.
struct GrowingBody : http::string_body {
  // NOLINTNEXTLINE(readability-identifier-naming): the name that Beast requires
  struct reader : http::string_body::reader {
    using http::string_body::reader::reader;
    void init(const boost::optional<uint64_t>& /*length*/, error_code& error) { error = {}; }
  };
};

std::string Text(beast::string_view text) { return {text.data(), text.size()}; }

std::vector<std::string_view> ValuesOf(const http::request_header<>& message, const char* name) {
  std::vector<std::string_view> values;
  const auto [begin, end] = message.equal_range(name);
  for (auto it = begin; it != end; ++it) {
    values.emplace_back(it->value().data(), it->value().size());
  }
  return values;
}

// A header that comes back with the answer; "" if it is not short and visible ASCII.
std::string IdOf(const http::request_header<>& message, const char* name) {
  std::string id = Text(message[name]);
  return IsRequestId(id) ? id : std::string();
}

// A target's path without its query. A target may be a whole URI (RFC 9112, section 3.2.2).
std::string PathOf(std::string_view target) {
  const size_t scheme = target.find("://");
  if (!target.starts_with('/') && scheme != std::string_view::npos) {
    const size_t path = target.find_first_of("/?", scheme + 3);
    if (path == std::string_view::npos || target[path] == '?') return "/";
    target.remove_prefix(path);
  }
  return std::string(target.substr(0, target.find('?')));
}

// The request without its body.
HttpRequest RequestOf(const http::request_header<>& message) {
  HttpRequest head{.method = Text(message.method_string())};
  head.path = PathOf(Text(message.target()));
  if (const auto found = message.find(http::field::authorization); found != message.end()) {
    head.authorization = Text(found->value());
  }
  head.content_type = Text(message[http::field::content_type]);
  for (const std::string_view coding : ValuesOf(message, "content-encoding")) {
    if (beast::iequals({coding.data(), coding.size()}, "identity")) continue;
    head.content_encoding = coding;
    break;
  }
  head.client = Text(message["outrider-client"]);
  head.request_id = IdOf(message, kRequestIdHeader);
  head.prefix = IdOf(message, "x-outrider-prefix");
  head.trace = ReadTraceHeaders(ValuesOf(message, "traceparent"), ValuesOf(message, "tracestate"));
  return head;
}

// `common`: headers of every answer, beside the request's id.
std::string HeadLines(const HttpReply& reply, const HttpHeaders& common, const std::string& id,
                      bool keep_alive) {
  std::string out = "HTTP/1.1 " + std::to_string(reply.code) + " " +
                    Text(http::obsolete_reason(static_cast<http::status>(reply.code))) +
                    "\r\nContent-Type: " + reply.content_type +
                    "\r\nConnection: " + (keep_alive ? "keep-alive" : "close") + "\r\n" +
                    kRequestIdHeader + ": " + id + "\r\n";
  for (const HttpHeaders* headers : {&common, &reply.headers}) {
    for (const auto& [name, value] : *headers) out += name + ": " + value + "\r\n";
  }
  return out;
}

// What makes the end of a body ambiguous, so that a part of it could be taken for the next request
// (RFC 9112, sections 6.1 and 6.3; codings other than chunked are not served). "" if it is
// unambiguous.
std::string FramingFault(const http::request_header<>& message) {
  const std::vector<std::string_view> codings = ValuesOf(message, "transfer-encoding");
  if (codings.empty()) return "";
  if (message.version() < 11) return "HTTP/1.0 has no Transfer-Encoding";
  const beast::string_view coding(codings[0].data(), codings[0].size());
  if (codings.size() > 1 || !beast::iequals(coding, "chunked")) {
    return "Transfer-Encoding is served as chunked alone, without other codings";
  }
  if (message.count(http::field::content_length) > 0) {
    return "Transfer-Encoding and Content-Length exclude each other";
  }
  return "";
}

// The HTTP code for a request that could not be read; 0: nobody waits for an answer.
int CodeOf(const error_code& error) {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::body_limit) return 413;
  static const auto& parsing = make_error_code(http::error::bad_method).category();
  const bool parsed = error.category() == parsing && error != http::error::end_of_stream &&
                      error != http::error::partial_message;
  return parsed ? 400 : 0;
}

// Everything but Post, Start, EndSoon, EndWhenIdle and Drop runs on the connection's strand.
template <class Stream>
class Connection final : public HttpConnection,
                         public std::enable_shared_from_this<Connection<Stream>> {
 public:
  template <class... Args>
  Connection(ConnectionOwner* owner, std::string peer, std::shared_ptr<ssl::context> tls,
             Args&&... args)
      : owner_(owner),
        peer_(std::move(peer)),
        tls_(std::move(tls)),
        stream_(std::forward<Args>(args)...),
        on_chunk_([this](uint64_t, beast::string_view extension, error_code& error) {
          extension_bytes_ += extension.size();
          if (extension_bytes_ > owner_->options().max_header_bytes) {
            error = http::error::bad_chunk_extension;
          }
        }) {}

  void Start() override {
    net::dispatch(stream_.get_executor(), [self = this->shared_from_this()] { self->Handshake(); });
  }
  void EndSoon() override {
    Post([this] {
      keep_alive_ = false;
      if (!answering_ && !closing_) Close();
    });
  }
  void EndWhenIdle() override {
    Post([this] {
      keep_alive_ = false;
      const bool waits = !answering_ && !closing_ && parser_.has_value();
      if (waits && !parser_->got_some() && buffer_.size() == 0) Close();
    });
  }
  void Drop() override {
    Post([this] {
      if (writing_ || closing_) Gone();  // else the client has read meanwhile
    });
  }
  void Abandon() override {
    on_gone_ = nullptr;
    Close();
  }

  void Post(std::function<void()> task) override {
    net::post(stream_.get_executor(),
              [self = this->shared_from_this(), task = std::move(task)] { task(); });
  }
  void OnGone(std::function<void()> gone) override { on_gone_ = std::move(gone); }

  void Reply(HttpReply reply) override {
    out_ += HeadOf(reply) + "Content-Length: " + std::to_string(reply.body.size()) + "\r\n\r\n";
    if (!head_only_) out_ += reply.body;
    ended_ = true;
    Flush();
  }
  void BeginStream(HttpReply head) override {
    // HTTP/1.0 has no chunks, so the end of the connection ends the body.
    if (!chunked_) keep_alive_ = false;
    out_ += HeadOf(head) + (chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
    Flush();
  }
  void Write(std::string bytes) override {
    if (closed_ || bytes.empty()) return;
    Append(Framed(std::move(bytes)));
    if (out_.size() + sending_.size() + waiting_bytes_ > owner_->options().max_waiting_bytes) {
      return Gone();
    }
    Flush();
  }
  void WriteFrom(HttpSource source) override {
    if (closed_) return;
    sources_.push_back({.source = std::move(source), .after = {}});
    Flush();
  }
  void EndStream() override {
    if (chunked_) Append("0\r\n\r\n");
    ended_ = true;
    Flush();
  }

 private:
  template <class... Args>
  auto Then(void (Connection::*member)(Args...)) {
    return beast::bind_front_handler(member, this->shared_from_this());
  }
  beast::tcp_stream& Tcp() { return beast::get_lowest_layer(stream_); }

  std::string HeadOf(const HttpReply& reply) {
    // The client did not name it, or what it sent could not be read.
    if (request_id_.empty()) request_id_ = owner_->NewRequestId();
    return HeadLines(reply, owner_->options().headers, request_id_, keep_alive_);
  }

  void Handshake() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      Tcp().expires_after(owner_->options().head_timeout);
      stream_.async_handshake(ssl::stream_base::server, Then(&Connection::OnHandshake));
    } else {
      ReadHead();
    }
  }
  void OnHandshake(error_code error) {
    if (error) return Close();
    ReadHead();
  }

  void ReadHead() {
    if (closed_ || owner_->stopping()) return Close();
    owner_->SetWait(this, ClientWait::kRequest);
    if (buffer_.size() == 0) buffer_.shrink_to_fit();
    request_id_.clear();
    head_only_ = false;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(owner_->options().max_header_bytes));
    parser_->body_limit(owner_->options().max_body_bytes);
    Tcp().expires_after(owner_->options().head_timeout);
    http::async_read_header(stream_, buffer_, *parser_, Then(&Connection::OnHead));
  }

  void OnHead(error_code error, size_t /*bytes*/) {
    if (error) return Refuse(error);
    request_ = RequestOf(parser_->get());
    if (request_.request_id.empty()) request_.request_id = owner_->NewRequestId();
    request_id_ = request_.request_id;
    request_.peer = peer_;
    keep_alive_ = parser_->get().keep_alive() && !owner_->draining();
    chunked_ = parser_->get().version() >= 11;
    head_only_ = parser_->get().method() == http::verb::head;
    if (const std::string fault = FramingFault(parser_->get()); !fault.empty()) {
      return RefuseWith(400, fault);
    }
    if (std::optional<HttpReply> refusal = owner_->handler().Admit(request_)) {
      // The unread rest of its body would be taken for the next request.
      keep_alive_ = keep_alive_ && parser_->is_done();
      BeginAnswer();
      return Reply(std::move(*refusal));
    }
    if (parser_->is_done()) return Answer();
    if (!MayHaveBody() && parser_->content_length().value_or(0) > 0) return RefuseBody();
    request_.share = owner_->ShareFor(peer_);
    extension_bytes_ = 0;
    parser_->on_chunk_header(on_chunk_);
    parser_->eager(true);
    Tcp().expires_after(owner_->options().body_timeout);
    if (beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
      static constexpr beast::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      net::async_write(stream_, net::buffer(kContinue.data(), kContinue.size()),
                       Then(&Connection::OnContinue));
      return;
    }
    ReadBody();
  }
  void OnContinue(error_code error, size_t /*bytes*/) {
    if (error) return Close();
    ReadBody();
  }

  void ReadBody() {
    http::async_read_some(stream_, buffer_, *parser_, Then(&Connection::OnBodyPart));
  }
  void OnBodyPart(error_code error, size_t /*bytes*/) {
    if (error) return Refuse(error);
    if (!MayHaveBody() && !parser_->get().body().empty()) return RefuseBody();
    switch (request_.share.GrowTo(parser_->get().body().size())) {
      case BodyBudget::Full::kNo: break;
      case BodyBudget::Full::kPeer:
        return RefuseWith(429, "this address has too many bytes of unfinished bodies here", true);
      case BodyBudget::Full::kServer:
        return RefuseWith(503, "the server holds too many bytes of unfinished bodies", true);
    }
    if (!parser_->is_done()) return ReadBody();
    request_.body = std::move(parser_->get().body());
    Answer();
  }

  bool MayHaveBody() const { return request_.method != "GET" && request_.method != "HEAD"; }
  void RefuseBody() { RefuseWith(400, "a " + request_.method + " has no body here; leave it out"); }
  void Refuse(const error_code& error) {
    const int code = CodeOf(error);
    if (code == 0) return Close();
    if (request_id_.empty()) request_id_ = IdOf(parser_->get(), kRequestIdHeader);
    RefuseWith(code, Describe(error));
  }
  std::string Describe(const error_code& error) const {
    if (error == http::error::buffer_overflow || error == http::error::bad_chunk_extension) {
      return "the extensions of chunks, or what follows the last chunk, are too long or malformed; "
             "leave them out";
    }
    const HttpServerOptions& options = owner_->options();
    if (error == http::error::header_limit) {
      return "the head has more than " + std::to_string(options.max_header_bytes) + " bytes";
    }
    if (error == http::error::body_limit) {
      return "the body has more than " + std::to_string(options.max_body_bytes) + " bytes";
    }
    return error.message();
  }
  void RefuseWith(int code, const std::string& message, bool retry = false) {
    keep_alive_ = false;
    BeginAnswer();
    parser_.reset();
    request_ = {};
    HttpReply reply = owner_->handler().Malformed(code, message);
    if (retry) reply.headers.emplace_back("Retry-After", "1");
    Reply(std::move(reply));
  }

  void BeginAnswer() {
    answering_ = true;
    if (!closed_) owner_->CountAnswer(1);
    owner_->SetWait(this, ClientWait::kNone);
  }
  void Answer() {
    BeginAnswer();
    parser_.reset();
    Tcp().expires_never();
    Watch();
    if (closed_) return;  // too much was sent before the answer
    owner_->handler().Handle(std::exchange(request_, {}), this->shared_from_this());
  }

  // Reads while the answer is computed, to notice when the client leaves. What it sends belongs to
  // its next request, and waits in `buffer_`.
  void Watch() {
    if (buffer_.size() + kWatchBytes > kMaxAheadBytes) return Gone();
    watching_ = true;
    stream_.async_read_some(buffer_.prepare(kWatchBytes), Then(&Connection::OnWatched));
  }
  void OnWatched(error_code error, size_t bytes) {
    watching_ = false;
    buffer_.commit(bytes);
    if (answering_) return error ? Gone() : Watch();
    // It was stopped, or ended together with the answer.
    if (error && error != net::error::operation_aborted) return Close();
    // It may have been answering while the others were told to drain.
    closing_ = closing_ || (owner_->draining() && buffer_.size() == 0);
    if (closing_) return EndTls();
    ReadHead();
  }

  std::string Framed(std::string bytes) const {
    if (!chunked_) return bytes;
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
    return size + bytes + "\r\n";
  }
  void Append(const std::string& bytes) {
    if (sources_.empty()) {
      out_ += bytes;
    } else {
      sources_.back().after += bytes;
      waiting_bytes_ += bytes.size();
    }
  }
  // Takes the first source's next part, or what was written after it.
  void TakeFromSource() {
    std::string part = sources_.front().source();
    if (!part.empty()) {
      out_ = Framed(std::move(part));
      return;
    }
    out_ = std::move(sources_.front().after);
    waiting_bytes_ -= out_.size();
    sources_.pop_front();
  }

  void Flush() {
    if (writing_ || closed_) return;
    while (out_.empty() && !sources_.empty()) TakeFromSource();
    if (out_.empty()) {
      if (ended_) Ended();
      return;
    }
    sending_ = std::exchange(out_, {});
    sent_ = 0;
    writing_ = true;
    WriteSome();
  }
  void WriteSome() {
    owner_->SetWait(this, ClientWait::kReading);
    Tcp().expires_after(owner_->options().write_timeout);
    stream_.async_write_some(net::buffer(sending_.data() + sent_, sending_.size() - sent_),
                             Then(&Connection::OnWritten));
  }
  void OnWritten(error_code error, size_t bytes) {
    if (error) {
      writing_ = false;
      return Gone();
    }
    sent_ += bytes;
    if (sent_ < sending_.size()) return WriteSome();
    owner_->SetWait(this, ClientWait::kNone);
    writing_ = false;
    sending_.clear();
    Flush();
  }

  void Ended() {
    answering_ = false;
    owner_->CountAnswer(-1);
    ended_ = false;
    on_gone_ = nullptr;
    closing_ = !keep_alive_;
    if (watching_) {
      Tcp().cancel();  // OnWatched continues
    } else if (closing_) {
      EndTls();
    } else {
      ReadHead();
    }
  }

  // Says over TLS that no more comes (close_notify), so that a client can tell the end from a cut.
  void EndTls() {
    owner_->SetWait(this, ClientWait::kReading);
    Tcp().expires_after(kLinger);
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      stream_.async_shutdown(Then(&Connection::EndSending));
    } else {
      EndSending({});
    }
  }
  // A client that sends on without answering TLS's end is an error there, and none here.
  void EndSending(error_code ignored) {
    if (closed_) return;
    Tcp().socket().shutdown(tcp::socket::shutdown_send, ignored);
    Linger();
  }
  // Discards what still arrives, until the client closes as well.
  void Linger() {
    buffer_.clear();
    Tcp().async_read_some(buffer_.prepare(kWatchBytes), Then(&Connection::OnLingered));
  }
  void OnLingered(error_code error, size_t /*bytes*/) {
    if (error) return Close();
    Linger();
  }

  void Gone() {
    if (closed_) return;
    const std::function<void()> gone = std::exchange(on_gone_, nullptr);
    Close();
    if (gone != nullptr) gone();
  }
  void Close() {
    if (closed_) return;
    closed_ = true;
    if (answering_) owner_->CountAnswer(-1);
    sources_.clear();  // they may hold this connection
    Tcp().close();
    owner_->OnClosed(this);
  }

  ConnectionOwner* const owner_;
  const std::string peer_;
  const std::shared_ptr<ssl::context> tls_;
  Stream stream_;
  beast::flat_buffer buffer_{kMaxAheadBytes};
  std::function<void(uint64_t, beast::string_view, error_code&)> on_chunk_;
  size_t extension_bytes_ = 0;  // of the body's chunks so far
  // declared before the parser, as it holds the body's share of the server's memory
  HttpRequest request_;
  std::string request_id_;  // of the request whose answer is next; "": not known yet
  std::optional<http::request_parser<GrowingBody>> parser_;
  std::function<void()> on_gone_;
  std::string out_;  // after sending_
  struct Source {
    HttpSource source;
    std::string after;  // written after it
  };
  std::deque<Source> sources_;  // after out_
  size_t waiting_bytes_ = 0;    // of what was written after sources
  std::string sending_;         // in flight from sent_ on
  size_t sent_ = 0;
  bool keep_alive_ = false;
  bool chunked_ = true;
  bool head_only_ = false;
  bool answering_ = false;  // from the whole request to the answer's last byte
  bool ended_ = false;      // the whole answer is in out_
  bool watching_ = false;
  bool writing_ = false;
  bool closing_ = false;  // this was its last answer
  bool closed_ = false;
};

}  // namespace

std::shared_ptr<HttpConnection> MakeConnection(tcp::socket socket, std::string peer,
                                               std::shared_ptr<ssl::context> tls,
                                               ConnectionOwner* owner) {
  if (tls == nullptr) {
    return std::make_shared<Connection<PlainStream>>(owner, std::move(peer), nullptr,
                                                     std::move(socket));
  }
  ssl::context& context = *tls;
  return std::make_shared<Connection<TlsStream>>(owner, std::move(peer), std::move(tls),
                                                 std::move(socket), context);
}

}  // namespace outrider
