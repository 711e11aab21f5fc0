// What the HTTP front serves as an OpenAPI 3.1 document, made of the routes and of the tables that
// requests are checked by.
//
// Thread: any.
#pragma once

#include <span>
#include <string>

#include "verifier/http/routes.h"

namespace outrider {

// `routes`: those that the server shows. `model`: the name of the only one.
std::string OpenApi(std::span<const Route> routes, const std::string& version,
                    const std::string& model);

}  // namespace outrider
