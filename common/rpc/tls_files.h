// The PEM files of one end of TLS, read again when they change: certificates are replaced without a
// restart. What is handed out fits together: a certificate without its key never gets out.
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
  std::string cert;  // our certificate, with the intermediate ones behind it
  std::string key;   // its private key, without a passphrase
  std::string ca;    // the authorities that the peer's certificate must come from
};

// Their contents.
struct TlsMaterial {
  std::string cert;
  std::string key;
  std::string ca;
};

class TlsFiles {
 public:
  // kNotFound for a file that cannot be read, kInvalidArgument for one that holds no certificate or
  // key, and for a key of another certificate.
  static Result<std::shared_ptr<TlsFiles>> Open(const TlsOptions& options);

  // What the files hold now. Files that are not right (half replaced, gone) are logged and leave
  // what was there; they are read again at their next change. The same pointer: nothing has
  // changed.
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
