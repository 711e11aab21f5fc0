// Dials one verifier: keeps the channel, and reads certificates and token again at every dial, so
// that they can be replaced.
//
// Thread: one owner.
#pragma once

#include <memory>
#include <string>

#include "common/rpc/tls_files.h"
#include "common/spec/drafter_hello.h"
#include "drafter/rpc/attach_stream.h"

namespace outrider {

struct VerifierDialOptions {
  std::string address;    // "host:port"
  std::string authority;  // see ChannelOptions
  DrafterHello hello;
  // This drafter's vocabulary, if hello.translates; else nullptr.
  std::shared_ptr<const DrafterVocabulary> vocabulary;
  std::shared_ptr<TlsFiles> tls;  // checked at every dial; null: plaintext
  std::string tls_server_name;    // see ChannelOptions
  std::string token_file;         // read at every dial; "": no token
};

class VerifierDialer {
 public:
  // `options` must outlive the dialer.
  explicit VerifierDialer(const VerifierDialOptions* options) : options_(options) {}

  // Reads certificates and token again. May block on files.
  void Renew();
  // Starts an attachment with what was read last. REQUIRES: Renew was called.
  std::shared_ptr<AttachStream> Dial(LinkEvents* events, LinkObserver* observer);

 private:
  const VerifierDialOptions* const options_;
  std::shared_ptr<const TlsMaterial> tls_material_;  // of stub_
  std::unique_ptr<AttachStub> stub_;
  std::string token_;
};

}  // namespace outrider
