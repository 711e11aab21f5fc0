// The PEM files of one end of TLS, read again when they change, so that certificates can be
// replaced without a restart. The returned material is consistent: a certificate always has its
// key.
//
// Owner: shared by a server, or by everybody who dials.
// Thread: any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/file_stamp.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace outrider {

// Paths of PEM files; empty: none.
struct TlsOptions {
  std::string cert;  // our certificate, followed by the intermediate ones
  std::string key;   // its private key, without a passphrase
  std::string ca;    // authorities that the peer's certificate must come from
};

// The contents of these files.
struct TlsMaterial {
  std::string cert;
  std::string key;
  std::string ca;
};

class TlsFiles {
 public:
  // kNotFound: a file cannot be read. kInvalidArgument: a file has no certificate or key, or the
  // key belongs to another certificate.
  static Result<std::shared_ptr<TlsFiles>> Open(const TlsOptions& options);

  // The present contents. Invalid files (half replaced, missing) are logged and the previous
  // contents stay; they are read again at their next change. If the pointer is the same, nothing
  // has changed.
  std::shared_ptr<const TlsMaterial> Current() OUTRIDER_EXCLUDES(mu_);

  const TlsOptions& options() const { return options_; }

 private:
  explicit TlsFiles(const TlsOptions& options) : options_(options) {}

  std::vector<FileStamp> Stamps() const;

  const TlsOptions options_;
  Mutex mu_;
  std::vector<FileStamp> stamps_ OUTRIDER_GUARDED_BY(mu_);  // of the last attempt to read
  std::shared_ptr<const TlsMaterial> material_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider
