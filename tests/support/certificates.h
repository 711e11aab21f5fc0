// Issues certificates for tests with the openssl command, in the test's own folder.
#pragma once

#include <string>

namespace outrider::testing {

struct IssuedCertificate {
  std::string cert;  // paths
  std::string key;
};

class CertificateAuthority {
 public:
  // Writes <directory>/<name>.pem and .key; fails the test when openssl does.
  CertificateAuthority(const std::string& directory, const std::string& name);

  // The path of the authority's certificate.
  const std::string& cert() const { return cert_; }

  enum class Validity { kNow, kExpired };
  // Issues a certificate with this common name for `hosts` ("DNS:a,IP:127.0.0.1"; "": for no host).
  // A second one with the same name overwrites the first, as in a rotation.
  IssuedCertificate Issue(const std::string& name, const std::string& hosts = "IP:127.0.0.1",
                          Validity validity = Validity::kNow) const;

 private:
  const std::string directory_;
  const std::string cert_;
  const std::string key_;
};

}  // namespace outrider::testing
