#include "verifier/rpc/authorization.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <strings.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace outrider {
namespace {

// Whom a request is counted for when places are shared out: an opaque key of the caller's choice.
constexpr char kClientKey[] = "outrider-client";
constexpr char kAuthorizationKey[] = "authorization";
constexpr std::string_view kBearer = "Bearer ";

std::optional<std::string_view> MetadataOf(const grpc::ServerContextBase& context,
                                           const char* key) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  return std::string_view(found->second.data(), found->second.size());
}

// The name of the caller's token; nullopt when it has none that is known.
std::optional<std::string> BearerOf(const grpc::ServerContextBase& context, TokenFile& tokens) {
  const auto value = MetadataOf(context, kAuthorizationKey);
  if (!value.has_value() || value->size() < kBearer.size()) return std::nullopt;
  if (strncasecmp(value->data(), kBearer.data(), kBearer.size()) != 0) return std::nullopt;
  return tokens.Find(value->substr(kBearer.size()));
}

// DNS names and common name of the caller's certificate, which the handshake has verified.
std::vector<std::string> CertificateNames(const grpc::ServerContextBase& context) {
  std::vector<std::string> names;
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer == nullptr || !peer->IsPeerAuthenticated()) return names;
  for (const char* property : {GRPC_PEER_DNS_PROPERTY_NAME, GRPC_X509_CN_PROPERTY_NAME}) {
    for (const grpc::string_ref& value : peer->FindPropertyValues(property)) {
      names.emplace_back(value.data(), value.size());
    }
  }
  return names;
}

}  // namespace

Result<std::string> ClientAuthorization::Admit(const grpc::ServerContextBase& context) const {
  const std::string stated(MetadataOf(context, kClientKey).value_or(""));
  if (tokens_ == nullptr) return stated;
  const std::optional<std::string> name = BearerOf(context, *tokens_);
  if (!name.has_value()) {
    return Unauthenticated("a known token is needed: metadata authorization: Bearer <token>");
  }
  return name->empty() ? "stated:" + stated : "token:" + *name;
}

Status DrafterAuthorization::Admit(const grpc::ServerContextBase& context) const {
  if (tokens_ == nullptr && names_.empty()) return Status();
  const std::vector<std::string> peer = CertificateNames(context);
  if (std::find_first_of(peer.begin(), peer.end(), names_.begin(), names_.end()) != peer.end()) {
    return Status();
  }
  if (tokens_ == nullptr) {
    std::string shown;
    for (const std::string& name : peer) shown += (shown.empty() ? "" : ", ") + name;
    return PermissionDenied("the drafter's certificate is not for a name of --drafter-names, but " +
                            (shown.empty() ? "for none" : shown));
  }
  if (BearerOf(context, *tokens_).has_value()) return Status();
  return Unauthenticated("a known drafter token is needed (--token-file of the drafter)");
}

}  // namespace outrider
