#include "tests/support/certificates.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace outrider::testing {
namespace {

void OpenSsl(const std::string& arguments) {
  const std::string command = "openssl " + arguments + " >/dev/null 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

constexpr char kNewKey[] = " -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

}  // namespace

CertificateAuthority::CertificateAuthority(const std::string& directory, const std::string& name)
    : directory_(directory),
      cert_(directory + "/" + name + ".pem"),
      key_(directory + "/" + name + ".key") {
  OpenSsl("req -x509" + std::string(kNewKey) + " -keyout " + key_ + " -out " + cert_ +
          " -days 2 -subj /CN=" + name);
}

IssuedCertificate CertificateAuthority::Issue(const std::string& name, const std::string& hosts,
                                              Validity validity) const {
  const std::string base = directory_ + "/" + name;
  const std::string request = base + ".csr";
  OpenSsl("req" + std::string(kNewKey) + " -keyout " + base + ".key -out " + request +
          " -subj /CN=" + name + (hosts.empty() ? "" : " -addext subjectAltName=" + hosts));
  OpenSsl("x509 -req -copy_extensions copy -in " + request + " -CA " + cert_ + " -CAkey " + key_ +
          " -CAcreateserial -out " + base + ".pem -days " +
          (validity == Validity::kExpired ? "-1" : "2"));
  return {.cert = base + ".pem", .key = base + ".key"};
}

}  // namespace outrider::testing
