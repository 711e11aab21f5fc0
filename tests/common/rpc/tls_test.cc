// TLS between our server and our channels, with certificates made for the test.
#include <gmock/gmock.h>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/tls_files.h"
#include "outrider/v1/generation.grpc.pb.h"
#include "tests/support/certificates.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::CertificateAuthority;
using ::testing::HasSubstr;
using testing::IssuedCertificate;
using Validity = CertificateAuthority::Validity;

class ModelService final : public v1::Generation::Service {
 public:
  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest*,
                        v1::GetModelResponse*) override {
    return grpc::Status::OK;
  }
};

struct Answer {
  grpc::Status status;
  std::string server_name;  // common name in the server's certificate
};

class TlsTest : public ::testing::Test {
 protected:
  // `clients`: the authority whose certificates clients need; "": they need none.
  void Serve(const IssuedCertificate& own, const std::string& clients = "") {
    auto files = TlsFiles::Open({.cert = own.cert, .key = own.key, .ca = clients});
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    auto server = RpcServer::Start({.listen = "127.0.0.1:0", .tls = *files}, {&service_});
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
  }

  std::shared_ptr<grpc::Channel> Dial(const std::string& ca, const IssuedCertificate& own = {},
                                      const std::string& server_name = "") {
    auto files = TlsFiles::Open({.cert = own.cert, .key = own.key, .ca = ca});
    EXPECT_TRUE(files.ok()) << files.status().ToString();
    return MakeChannel("127.0.0.1:" + std::to_string(server_->port()),
                       {.tls = (*files)->Current(), .tls_server_name = server_name});
  }

  static Answer Call(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    v1::GetModelResponse response;
    Answer answer;
    answer.status = v1::Generation::NewStub(channel)->GetModel(&context, {}, &response);
    if (!answer.status.ok()) return answer;
    const auto names = context.auth_context()->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
    if (!names.empty()) answer.server_name.assign(names[0].data(), names[0].size());
    return answer;
  }

  static void ExpectNoConnection(const Answer& answer) {
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE)
        << answer.status.error_message();
  }

  testing::TempDir dir_;
  const CertificateAuthority ca_{dir_.path(), "ca"};
  const CertificateAuthority other_ca_{dir_.path(), "other-ca"};
  ModelService service_;
  std::unique_ptr<RpcServer> server_;
};

TEST_F(TlsTest, TrustsServerOfItsAuthority) {
  Serve(ca_.Issue("server"));
  const Answer answer = Call(Dial(ca_.cert()));
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.server_name, "server");
}

TEST_F(TlsTest, RefusesServerOfAnotherAuthority) {
  Serve(ca_.Issue("server"));
  ExpectNoConnection(Call(Dial(other_ca_.cert())));
}

TEST_F(TlsTest, RefusesExpiredServer) {
  Serve(ca_.Issue("server", "IP:127.0.0.1", Validity::kExpired));
  ExpectNoConnection(Call(Dial(ca_.cert())));
}

TEST_F(TlsTest, ChecksServerName) {
  Serve(ca_.Issue("server", "DNS:verifier.example"));
  ExpectNoConnection(Call(Dial(ca_.cert())));
  ExpectNoConnection(Call(Dial(ca_.cert(), {}, "other.example")));
  EXPECT_TRUE(Call(Dial(ca_.cert(), {}, "verifier.example")).status.ok());
}

TEST_F(TlsTest, PlaintextIsNotAnswered) {
  Serve(ca_.Issue("server"));
  ExpectNoConnection(
      Call(MakeChannel("127.0.0.1:" + std::to_string(server_->port()), ChannelOptions())));
}

TEST_F(TlsTest, MutualTlsChecksClientAuthority) {
  Serve(ca_.Issue("server"), ca_.cert());
  EXPECT_TRUE(Call(Dial(ca_.cert(), ca_.Issue("client", ""))).status.ok());
  ExpectNoConnection(Call(Dial(ca_.cert())));
  ExpectNoConnection(Call(Dial(ca_.cert(), other_ca_.Issue("stranger", ""))));
  ExpectNoConnection(Call(Dial(ca_.cert(), ca_.Issue("late", "", Validity::kExpired))));
}

TEST_F(TlsTest, ServesReplacedCertificatesWithoutRestart) {
  const IssuedCertificate served = ca_.Issue("server");
  Serve(served);
  const auto open = Dial(ca_.cert());
  EXPECT_EQ(Call(open).server_name, "server");
  const IssuedCertificate next = ca_.Issue("next");
  std::filesystem::rename(next.cert, served.cert);
  std::filesystem::rename(next.key, served.key);
  EXPECT_EQ(Call(Dial(ca_.cert())).server_name, "next");
  EXPECT_EQ(Call(open).server_name, "server") << "a connection stays as it is";
}

TEST_F(TlsTest, FollowsReplacedAuthority) {
  const std::string clients = dir_ / "clients.pem";
  std::filesystem::copy(ca_.cert(), clients);
  Serve(ca_.Issue("server"), clients);
  const IssuedCertificate old_client = ca_.Issue("old", "");
  const IssuedCertificate new_client = other_ca_.Issue("new", "");
  EXPECT_TRUE(Call(Dial(ca_.cert(), old_client)).status.ok());
  ExpectNoConnection(Call(Dial(ca_.cert(), new_client)));
  std::filesystem::remove(clients);
  std::filesystem::copy(other_ca_.cert(), clients);
  ExpectNoConnection(Call(Dial(ca_.cert(), old_client)));
  EXPECT_TRUE(Call(Dial(ca_.cert(), new_client)).status.ok());
}

TEST_F(TlsTest, InvalidFilesKeepOldCertificate) {
  const IssuedCertificate served = ca_.Issue("server");
  Serve(served);
  const IssuedCertificate next = ca_.Issue("next");
  EXPECT_EQ(Call(Dial(ca_.cert())).server_name, "server");
  std::filesystem::rename(next.cert, served.cert);  // the key is still the old certificate's
  EXPECT_EQ(Call(Dial(ca_.cert())).server_name, "server");
  std::ofstream(served.key) << "no key";
  EXPECT_EQ(Call(Dial(ca_.cert())).server_name, "server");
  std::filesystem::remove(served.key);
  EXPECT_EQ(Call(Dial(ca_.cert())).server_name, "server");
  std::filesystem::rename(next.key, served.key);
  EXPECT_EQ(Call(Dial(ca_.cert())).server_name, "next");
}

TEST_F(TlsTest, RefusesInvalidFilesAtStart) {
  const IssuedCertificate good = ca_.Issue("server");
  const IssuedCertificate other = ca_.Issue("next");
  const std::string text = dir_ / "text";
  std::ofstream(text) << "neither";
  const std::string locked = dir_ / "locked.key";
  ASSERT_EQ(std::system(("openssl pkcs8 -topk8 -v2 aes-128-cbc -passout pass:x -in " + good.key +
                         " -out " + locked)
                            .c_str()),
            0);
  const auto error = [](const TlsOptions& options) { return TlsFiles::Open(options).status(); };

  Status status = error({.cert = dir_ / "none", .key = good.key});
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(dir_ / "none"));
  status = error({.cert = good.cert, .key = other.key});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("not the private key of"));
  for (const TlsOptions& wrong :
       {TlsOptions{.cert = text, .key = good.key}, TlsOptions{.cert = good.cert, .key = text},
        TlsOptions{.cert = good.cert, .key = good.cert},
        TlsOptions{.cert = good.cert, .key = locked}, TlsOptions{.cert = good.cert},
        TlsOptions{.ca = text}, TlsOptions{.ca = good.key}}) {
    EXPECT_EQ(error(wrong).code(), Code::kInvalidArgument) << wrong.cert << " " << wrong.key;
  }
}

}  // namespace
}  // namespace outrider
