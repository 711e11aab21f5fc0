#include "verifier/rpc/authorization.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "common/net/network.h"

namespace outrider {
namespace {

// The key by which capacity is shared among callers: opaque, and of the caller's choice.
constexpr char kClientKey[] = "outrider-client";
constexpr char kAuthorizationKey[] = "authorization";

std::optional<std::string_view> MetadataOf(const grpc::ServerContextBase& context,
                                           const char* key) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  return std::string_view(found->second.data(), found->second.size());
}

// The DNS names and common name of the caller's certificate, which the handshake has verified.
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

std::string NetworkOfPeer(const std::string& peer) {
  constexpr std::string_view kIpv4 = "ipv4:", kIpv6 = "ipv6:%5B";
  if (peer.starts_with(kIpv4)) return peer.substr(kIpv4.size(), peer.rfind(':') - kIpv4.size());
  if (!peer.starts_with(kIpv6)) return peer;
  // Up to the bracket or a zone, both of which are escaped.
  return NetworkOf(peer.substr(kIpv6.size(), peer.find('%', kIpv6.size()) - kIpv6.size()));
}

Result<CallerKeys> ClientAuthorization::Admit(const grpc::ServerContextBase& context) const {
  return tokens_->Admit(MetadataOf(context, kAuthorizationKey),
                        MetadataOf(context, kClientKey).value_or(""),
                        NetworkOfPeer(context.peer()));
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
  if (BearerOf(MetadataOf(context, kAuthorizationKey), *tokens_).has_value()) return Status();
  return Unauthenticated("a known drafter token is needed (--token-file of the drafter)");
}

}  // namespace outrider
