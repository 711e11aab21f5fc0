// Authorization over real connections: metadata and certificates come from a handshake.
#include "verifier/rpc/authorization.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <fstream>
#include <map>
#include <string>

#include "common/net/network.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/status_map.h"
#include "outrider/v1/generation.grpc.pb.h"
#include "tests/support/certificates.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::CertificateAuthority;
using ::testing::HasSubstr;
using testing::IssuedCertificate;
using Metadata = std::map<std::string, std::string>;

std::unique_ptr<TokenFile> Tokens(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  auto file = TokenFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  return std::move(file).value();
}

// GetModel requires a client (its name and architecture are the keys), Tokenize a drafter.
class Gate final : public v1::Generation::Service {
 public:
  Gate(std::unique_ptr<TokenFile> client_tokens, std::unique_ptr<TokenFile> drafter_tokens,
       std::vector<std::string> names)
      : tokens_(std::move(client_tokens)), drafters_(std::move(drafter_tokens), std::move(names)) {}

  grpc::Status GetModel(grpc::ServerContext* context, const v1::GetModelRequest*,
                        v1::GetModelResponse* response) override {
    const Result<CallerKeys> keys = clients_.Admit(*context);
    if (!keys.ok()) return ToGrpc(keys.status());
    response->set_name(keys->client);
    response->set_architecture(keys->turn);
    return grpc::Status::OK;
  }
  grpc::Status Tokenize(grpc::ServerContext* context, const v1::TokenizeRequest*,
                        v1::TokenizeResponse*) override {
    return ToGrpc(drafters_.Admit(*context));
  }

 private:
  const ClientTokens tokens_;
  const ClientAuthorization clients_{&tokens_};
  const DrafterAuthorization drafters_;
};

class AuthorizationTest : public ::testing::Test {
 protected:
  void Serve(std::unique_ptr<TokenFile> client_tokens, std::unique_ptr<TokenFile> drafter_tokens,
             std::vector<std::string> names = {}, std::shared_ptr<TlsFiles> tls = nullptr) {
    gate_ = std::make_unique<Gate>(std::move(client_tokens), std::move(drafter_tokens),
                                   std::move(names));
    auto server = RpcServer::Start({.listen = "127.0.0.1:0", .tls = tls}, {gate_.get()});
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
    Dial({});
  }
  void Dial(const ChannelOptions& options) {
    stub_ = v1::Generation::NewStub(
        MakeChannel("127.0.0.1:" + std::to_string(server_->port()), options));
  }

  Result<CallerKeys> Keys(const Metadata& metadata) {
    grpc::ClientContext context;
    for (const auto& [key, value] : metadata) context.AddMetadata(key, value);
    v1::GetModelResponse response;
    const Status status = FromGrpc(stub_->GetModel(&context, {}, &response));
    if (!status.ok()) return status;
    return CallerKeys{.client = response.name(), .turn = response.architecture()};
  }
  Result<std::string> Client(const Metadata& metadata) {
    OUTRIDER_ASSIGN(CallerKeys keys, Keys(metadata));
    return keys.client;
  }
  Status Drafter(const Metadata& metadata = {}) {
    grpc::ClientContext context;
    for (const auto& [key, value] : metadata) context.AddMetadata(key, value);
    v1::TokenizeResponse response;
    return FromGrpc(stub_->Tokenize(&context, {}, &response));
  }

  testing::TempDir dir_;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<v1::Generation::Stub> stub_;
};

TEST_F(AuthorizationTest, AllowsEverybodyWithoutTokens) {
  Serve(nullptr, nullptr);
  EXPECT_EQ(*Client({}), "");
  EXPECT_EQ(*Client({{"outrider-client", "a"}}), "a");
  EXPECT_TRUE(Drafter().ok());
}

TEST_F(AuthorizationTest, ClientNeedsKnownToken) {
  Serve(Tokens(dir_ / "clients", "alice tok-a\ntok-b\n"), Tokens(dir_ / "drafters", "tok-d\n"));
  for (const char* header : {"Bearer tok-a", "bearer tok-a"}) {
    EXPECT_TRUE(Client({{"authorization", header}}).ok()) << header;
  }
  for (const char* header : {"", "Bearer", "Bearer ", "tok-a", "Basic tok-a", "Bearer tok-",
                             "Bearer tok-ab", "Bearer  tok-a", "Bearer alice", "Bearer tok-d"}) {
    const Status status = Client({{"authorization", header}}).status();
    EXPECT_EQ(status.code(), Code::kUnauthenticated) << header;
    EXPECT_THAT(status.message(), HasSubstr("Bearer <token>"));
  }
  EXPECT_EQ(Client({}).status().code(), Code::kUnauthenticated);
}

TEST_F(AuthorizationTest, CountsOnlyHolderOfToken) {
  Serve(Tokens(dir_ / "clients", "alice tok-a\nbob tok-b\ntok-c\n"), nullptr);
  const auto key = [&](const std::string& token, const std::string& stated) {
    return *Client({{"authorization", "Bearer " + token}, {"outrider-client", stated}});
  };
  const std::string alice = key("tok-a", "alice");
  EXPECT_EQ(key("tok-a", "bob"), alice) << "a named token goes before the metadata";
  EXPECT_NE(key("tok-b", "alice"), alice);
  for (const std::string& stated : {std::string("alice"), alice}) {
    EXPECT_NE(key("tok-c", stated), alice) << "a nameless one takes no name of another's token";
  }
  EXPECT_NE(key("tok-c", "x"), key("tok-c", "y")) << "but tells its own users apart";
}

TEST_F(AuthorizationTest, SharesByTokenNameOrAddress) {
  Serve(nullptr, nullptr);
  EXPECT_EQ(Keys({})->turn, "127.0.0.1");
  EXPECT_EQ(Keys({{"outrider-client", "a"}})->turn, "127.0.0.1");
  Serve(Tokens(dir_ / "clients", "alice tok-a\nbob tok-b\ntok-c\n"), nullptr);
  const auto turn = [&](const std::string& token, const std::string& stated) {
    return Keys({{"authorization", "Bearer " + token}, {"outrider-client", stated}})->turn;
  };
  EXPECT_EQ(turn("tok-a", "x"), turn("tok-a", "y"));
  EXPECT_NE(turn("tok-a", "x"), turn("tok-b", "x"));
  EXPECT_EQ(turn("tok-c", "x"), turn("tok-c", "y"));
}

TEST(NetworkOfPeer, FindsTheAddress) {
  EXPECT_EQ(NetworkOfPeer("ipv4:10.0.0.1:443"), "10.0.0.1");
  const std::string network = NetworkOf("2001:db8::1");
  EXPECT_EQ(NetworkOfPeer("ipv6:%5B2001:db8::1%5D:443"), network);
  EXPECT_EQ(NetworkOfPeer("ipv6:%5B2001:db8:0:0:ffff::2%25eth0%5D:1"), network);
  EXPECT_EQ(NetworkOfPeer("ipv6:%5Bnonsense%5D:1"), "nonsense");
  for (const char* other : {"unix:/tmp/socket", ""}) EXPECT_EQ(NetworkOfPeer(other), other);
}

TEST_F(AuthorizationTest, DrafterNeedsKnownToken) {
  Serve(Tokens(dir_ / "clients", "tok-a\n"), Tokens(dir_ / "drafters", "tok-d\n"));
  EXPECT_TRUE(Drafter({{"authorization", "Bearer tok-d"}}).ok());
  for (const char* header : {"Bearer tok-a", "Bearer other"}) {
    const Status status = Drafter({{"authorization", header}});
    EXPECT_EQ(status.code(), Code::kUnauthenticated) << header;
    EXPECT_THAT(status.message(), HasSubstr("drafter token"));
  }
  EXPECT_EQ(Drafter().code(), Code::kUnauthenticated);
}

TEST_F(AuthorizationTest, DrafterMayShowCertificateInstead) {
  const CertificateAuthority ca(dir_.path(), "ca");
  const IssuedCertificate own = ca.Issue("server");
  auto tls = TlsFiles::Open({.cert = own.cert, .key = own.key, .ca = ca.cert()});
  ASSERT_TRUE(tls.ok()) << tls.status().ToString();
  const auto dial_as = [&](const std::string& name, const std::string& hosts) {
    const IssuedCertificate cert = ca.Issue(name, hosts);
    auto files = TlsFiles::Open({.cert = cert.cert, .key = cert.key, .ca = ca.cert()});
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    Dial({.tls = (*files)->Current()});
  };

  Serve(nullptr, nullptr, {"drafter-1", "drafters.example"}, *tls);
  dial_as("drafter-1", "");
  EXPECT_TRUE(Drafter().ok()) << "by its common name";
  dial_as("unnamed", "DNS:a.example,DNS:drafters.example");
  EXPECT_TRUE(Drafter().ok()) << "by a DNS name";
  for (const char* hosts : {"", "DNS:a.example", "URI:drafters.example", "email:x@drafter-1",
                            "DNS:sub.drafters.example"}) {
    dial_as("drafter-2", hosts);
    const Status status = Drafter({{"authorization", "Bearer tok-d"}});
    EXPECT_EQ(status.code(), Code::kPermissionDenied) << hosts;
    EXPECT_THAT(status.message(), HasSubstr("--drafter-names"));
    EXPECT_THAT(status.message(), HasSubstr("drafter-2"));
  }

  server_.reset();
  Serve(nullptr, Tokens(dir_ / "drafters", "tok-d\n"), {"drafter-1"}, *tls);
  dial_as("drafter-2", "");
  EXPECT_TRUE(Drafter({{"authorization", "Bearer tok-d"}}).ok()) << "either is enough";
  EXPECT_EQ(Drafter().code(), Code::kUnauthenticated);
  dial_as("drafter-1", "");
  EXPECT_TRUE(Drafter().ok());
}

}  // namespace
}  // namespace outrider
