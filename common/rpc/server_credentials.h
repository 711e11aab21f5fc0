// TLS for a server whose certificates are replaced while it runs.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "common/rpc/tls_files.h"

namespace outrider {

// Every new connection is greeted with what `files` hold then; connections that are open stay. With
// authorities in `files`, a client without a certificate of theirs is refused in the handshake. The
// credentials must outlive the server.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(std::shared_ptr<TlsFiles> files);

}  // namespace outrider
