// The model that a service serves, loaded as its flags say: on one device, or divided among
// several.
//
// Thread: main.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include "common/base/status.h"
#include "common/model/model.h"
#include "common/ranks/rank_processes.h"
#include "common/service/service_options.h"

namespace outrider {

// Loads the model onto its device and says so in the log. Where `stop` is asked for meanwhile the
// process ends at once, with 0: nothing is served yet that would have to end in order.
// With several devices, each but the first gets a process of its own; if one of these ends later,
// so does this process, with exit code 1.
Result<std::unique_ptr<Model>> LoadServedModel(const ServiceOptions& options, int max_batch_tokens,
                                               const std::stop_token& stop = {});
// How a service gets its model: LoadServedModel, or what a test has in its place.
using ModelLoader = std::function<Result<std::unique_ptr<Model>>(
    const ServiceOptions& options, int max_batch_tokens, const std::stop_token& stop)>;
// LoadServedModel beside another model of the process. `promised_bytes`: as ModelOptions.
Result<std::unique_ptr<Model>> LoadSecondModel(const ServiceOptions& options, int max_batch_tokens,
                                               const std::stop_token& stop, int64_t promised_bytes);
// Bytes of host memory that the cache of `model`, loaded with `options`, may take; 0 on a GPU.
int64_t KvBytes(const ServiceOptions& options, const Model& model);

// What such a process does in place of serving: it holds its device's part of the model until the
// process that started it ends. Errors that it cannot tell that process are returned.
Status FollowServedModel(const ServiceOptions& options, int max_batch_tokens,
                         const FollowArguments& arguments);

}  // namespace outrider
