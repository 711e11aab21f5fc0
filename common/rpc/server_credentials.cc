#include "common/rpc/server_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <utility>

#include "common/base/check.h"

namespace outrider {
namespace {

// gRPC's own reloading from files (FileWatcherCertificateProvider) polls, and accepts a key that
// does not fit. Its older hook asks before every handshake and keeps the present material if told
// so; it is only available in C.
class ReloadingCredentials final : public grpc::ServerCredentials {
 public:
  explicit ReloadingCredentials(std::shared_ptr<TlsFiles> files) : files_(std::move(files)) {
    const auto request = files_->options().ca.empty()
                             ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                             : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    credentials_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(request, &Fetch, this));
  }
  ~ReloadingCredentials() override { grpc_server_credentials_release(credentials_); }

  // The services check tokens, which also exist with plaintext.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {
    OUTRIDER_CHECK(false);
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // gRPC calls it at start and before every handshake, one call at a time.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    auto* credentials = static_cast<ReloadingCredentials*>(self);
    std::shared_ptr<const TlsMaterial> material = credentials->files_->Current();
    if (material == credentials->served_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{.private_key = material->key.c_str(),
                                          .cert_chain = material->cert.c_str()};
    // gRPC requires authorities (by an assertion) even if it asks nobody for a certificate; any are
    // good enough then.
    const std::string& authorities = material->ca.empty() ? material->cert : material->ca;
    *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
    credentials->served_ = std::move(material);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<TlsFiles> files_;
  std::shared_ptr<const TlsMaterial> served_;
  grpc_server_credentials* credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(std::shared_ptr<TlsFiles> files) {
  return std::make_shared<ReloadingCredentials>(std::move(files));
}

}  // namespace outrider
