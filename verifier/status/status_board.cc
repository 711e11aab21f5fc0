#include "verifier/status/status_board.h"

#include <string>
#include <utility>

#include "verifier/status/status_page.h"

namespace outrider {
namespace {

constexpr Duration kSamplePeriod = std::chrono::seconds(1);

using Headers = std::vector<std::pair<std::string, std::string>>;

const Headers& CommonHeaders() {
  static const Headers headers = {{"Cache-Control", "no-store"},
                                  {"X-Content-Type-Options", "nosniff"},
                                  {"Referrer-Policy", "no-referrer"},
                                  {"Cross-Origin-Resource-Policy", "same-origin"}};
  return headers;
}

}  // namespace

void StatusBoard::Seen::Leave(StatusSample sample, StatusNow now) {
  MutexLock lock(mail_mu_);
  if (mail_.size() < kMaxMail) mail_.emplace_back(std::move(sample), std::move(now));
}

void StatusBoard::Seen::TakeMail() {
  std::vector<std::pair<StatusSample, StatusNow>> mail;
  {
    MutexLock lock(mail_mu_);
    mail.swap(mail_);
  }
  for (auto& [sample, now] : mail) history_.Add(std::move(sample), std::move(now));
}

void StatusBoard::Seen::Collect() {
  MutexLock lock(mu_);
  TakeMail();
}

std::string StatusBoard::Seen::ToJson(Time now) {
  MutexLock lock(mu_);
  TakeMail();
  return history_.ToJson(now);
}

StatusBoard::StatusBoard(const Watched& watched, StatusHistory::Served served)
    : seen_(std::make_shared<Seen>(std::move(served), std::chrono::steady_clock::now())),
      sampler_(kSamplePeriod, [seen = seen_, watched] {
        // If the engine is too busy to take the task, the page shows that.
        (void)watched.thread->TryPost([seen, watched] { Sample(watched, *seen); });
        seen->Collect();
      }) {}

void StatusBoard::Sample(const Watched& watched, Seen& seen) {
  StatusNow now{.engine = watched.engine->Snapshot(),
                .drafters = watched.roster->Snapshot(),
                .faults = FaultsOf(*watched.metrics)};
  StatusSample sample = SampleOf(std::chrono::steady_clock::now(), now.engine, *watched.metrics);
  seen.Leave(std::move(sample), std::move(now));
}

void StatusBoard::ServeOn(MetricsExporter& exporter) const {
  Headers page_headers = CommonHeaders();
  page_headers.emplace_back("Content-Security-Policy", ContentSecurityPolicy(StatusPageHtml()));
  exporter.AddPage("/status", [headers = std::move(page_headers)] {
    return MetricsPage{.content_type = "text/html; charset=utf-8",
                       .headers = headers,
                       .body = std::string(StatusPageHtml())};
  });
  exporter.AddPage("/status.json", [seen = seen_] {
    return MetricsPage{.content_type = "application/json",
                       .headers = CommonHeaders(),
                       .body = seen->ToJson(std::chrono::steady_clock::now())};
  });
}

}  // namespace outrider
