#include "drafter/rpc/verifier_dialer.h"

#include <atomic>
#include <cstdint>
#include <utility>

#include "common/base/log.h"
#include "common/rpc/channel.h"
#include "common/rpc/token_file.h"

namespace outrider {
namespace {

uint64_t NextConnection() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

}  // namespace

void VerifierDialer::Renew() {
  std::shared_ptr<const TlsMaterial> material =
      options_->tls == nullptr ? nullptr : options_->tls->Current();
  if (stub_ == nullptr || material != tls_material_) {
    stub_ = std::make_unique<AttachStub>(
        MakeChannel(options_->address, {.tls = material,
                                        .tls_server_name = options_->tls_server_name,
                                        .authority = options_->authority}));
    tls_material_ = std::move(material);
  }
  if (options_->token_file.empty()) return;
  Result<std::string> token = ReadToken(options_->token_file);
  if (token.ok()) {
    token_ = std::move(token).value();
  } else {
    Log(LogLevel::kError, "the token file is not right; the token read before is sent",
        {{"reason", token.status().message()}});
  }
}

std::shared_ptr<AttachStream> VerifierDialer::Dial(LinkEvents* events, LinkObserver* observer) {
  return AttachStream::Start(*stub_, options_->address, NextConnection(), token_, options_->hello,
                             options_->vocabulary, events, observer);
}

}  // namespace outrider
