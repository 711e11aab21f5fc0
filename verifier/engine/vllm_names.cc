#include "verifier/engine/vllm_names.h"

#include <string>

namespace outrider {

MetricAliases VllmAliases() {
  // A process has one engine; vLLM numbers those of a server.
  MetricAliases aliases{.labels = {{"engine", "0"}}};
  for (const std::string name : {"time_to_first_token_seconds",
                                 "inter_token_latency_seconds",
                                 "e2e_request_latency_seconds",
                                 "request_queue_time_seconds",
                                 "request_prefill_time_seconds",
                                 "request_decode_time_seconds",
                                 "request_inference_time_seconds",
                                 "request_time_per_output_token_seconds",
                                 "request_prompt_tokens",
                                 "request_generation_tokens",
                                 "request_params_max_tokens",
                                 "num_requests_running",
                                 "num_requests_waiting",
                                 "num_preemptions_total",
                                 "prefix_cache_queries_total",
                                 "prefix_cache_hits_total",
                                 "prompt_tokens_total",
                                 "generation_tokens_total",
                                 "request_success_total",
                                 "spec_decode_num_drafts_total",
                                 "spec_decode_num_draft_tokens_total",
                                 "spec_decode_num_accepted_tokens_total",
                                 "spec_decode_num_accepted_tokens_per_pos_total"}) {
    aliases.names.emplace("outrider_" + name, "vllm:" + name);
  }
  aliases.names.emplace("outrider_inter_token_latency_seconds",
                        "vllm:time_per_output_token_seconds");
  // vLLM's is the longest of a request's n generations; here each is a request of the engine.
  aliases.names.emplace("outrider_request_generation_tokens",
                        "vllm:request_max_num_generation_tokens");
  aliases.names.emplace("outrider_batch_rows", "vllm:iteration_tokens_total");
  // To vLLM, pages that can be taken at once are free, although its prefix cache still lists them.
  aliases.names.emplace("outrider_kv_cache_requests_perc", "vllm:kv_cache_usage_perc");
  aliases.names.emplace("outrider_kv_cache_requests_perc", "vllm:gpu_cache_usage_perc");
  aliases.names.emplace("outrider_cache_config_info", "vllm:cache_config_info");
  return aliases;
}

}  // namespace outrider
