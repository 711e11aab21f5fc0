// TLS for a server whose certificates are replaced while it runs.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "common/rpc/tls_files.h"

namespace outrider {

// A new connection uses the present contents of `files`; open connections are not affected. With
// authorities in `files`, the handshake refuses clients without a certificate from these. The
// credentials must outlive the server.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(std::shared_ptr<TlsFiles> files);

}  // namespace outrider
