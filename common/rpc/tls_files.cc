#include "common/rpc/tls_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <utility>

#include "common/base/input_file.h"
#include "common/base/log.h"

namespace outrider {
namespace {

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using CertificatePtr = std::unique_ptr<X509, Freer<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;

// Otherwise OpenSSL would ask for a passphrase on the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

BioPtr Reader(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Result<std::string> ReadPem(const std::string& path) {
  if (path.empty()) return std::string();
  return ReadFile(path, kMaxTextFileBytes);
}

// The first certificate of `pem`.
Result<CertificatePtr> ParseCertificate(const std::string& path, const std::string& pem) {
  CertificatePtr certificate(PEM_read_bio_X509(Reader(pem).get(), nullptr, &NoPassphrase, nullptr));
  ERR_clear_error();  // gRPC reads the same thread's queue
  if (certificate == nullptr) return InvalidArgument(path + ": holds no certificate in PEM");
  return certificate;
}

Result<KeyPtr> ParseKey(const std::string& path, const std::string& pem) {
  KeyPtr key(PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, &NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return InvalidArgument(path + ": holds no private key in PEM without a passphrase");
  }
  return key;
}

std::string ExpiryOf(const X509& certificate) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(out.get(), X509_get0_notAfter(&certificate));
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

Result<TlsMaterial> Read(const TlsOptions& options) {
  if (options.cert.empty() != options.key.empty()) {
    return InvalidArgument("a certificate needs its private key, and the key its certificate");
  }
  TlsMaterial material;
  OUTRIDER_ASSIGN(material.cert, ReadPem(options.cert));
  OUTRIDER_ASSIGN(material.key, ReadPem(options.key));
  OUTRIDER_ASSIGN(material.ca, ReadPem(options.ca));
  if (!options.ca.empty()) OUTRIDER_TRY(ParseCertificate(options.ca, material.ca).status());
  if (options.cert.empty()) return material;
  OUTRIDER_ASSIGN(const CertificatePtr certificate, ParseCertificate(options.cert, material.cert));
  OUTRIDER_ASSIGN(const KeyPtr key, ParseKey(options.key, material.key));
  const bool fits = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) {
    return InvalidArgument(options.key + ": is not the private key of the certificate " +
                           options.cert);
  }
  // Peers refuse an expired certificate, so it is logged, but not an error here.
  const bool expired = X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0;
  Log(expired ? LogLevel::kWarning : LogLevel::kInfo,
      expired ? "the certificate has expired" : "certificate loaded",
      {{"cert", options.cert}, {"expires", ExpiryOf(*certificate)}});
  return material;
}

}  // namespace

Result<std::shared_ptr<TlsFiles>> TlsFiles::Open(const TlsOptions& options) {
  std::shared_ptr<TlsFiles> files(new TlsFiles(options));
  MutexLock lock(files->mu_);
  files->stamps_ = files->Stamps();
  OUTRIDER_ASSIGN(TlsMaterial material, Read(options));
  files->material_ = std::make_shared<const TlsMaterial>(std::move(material));
  return files;
}

std::vector<FileStamp> TlsFiles::Stamps() const {
  return {StampOf(options_.cert), StampOf(options_.key), StampOf(options_.ca)};
}

std::shared_ptr<const TlsMaterial> TlsFiles::Current() {
  MutexLock lock(mu_);
  // Taken before reading, so that a change in between is noticed at the next call.
  std::vector<FileStamp> stamps = Stamps();
  if (stamps == stamps_) return material_;
  stamps_ = std::move(stamps);
  Result<TlsMaterial> material = Read(options_);
  if (material.ok()) {
    material_ = std::make_shared<const TlsMaterial>(std::move(material).value());
  } else {
    Log(LogLevel::kError, "the TLS files are not right; what was read before stays in use",
        {{"reason", material.status().message()}});
  }
  return material_;
}

}  // namespace outrider
