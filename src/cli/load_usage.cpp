// The help page of `penstock load`.
#include "cli/load_setup.h"

namespace penstock::cli {

Usage load_usage() {
  Usage usage;
  usage.command = "load";
  usage.summary =
      "Sends requests to any OpenAI-compatible server and measures what its users would see. Latencies count from "
      "when\n"
      "a request was meant to start, so that a server that stalls cannot hide it.";
  usage.operand = "URL";
  const auto add = [&](const char* group, const char* name, const char* value, const char* help,
                       const char* fallback = "") {
    usage.flags.push_back({group, name, value, help, fallback});
  };
  const auto more = [&](const char* name, const char* value, const char* help, const char* fallback = "") {
    add("Traffic, one of --rate, --trace, --profile and --concurrency", name, value, help, fallback);
  };
  more("--rate", "RATE", "requests per second, independent of the answers (open loop)");
  more("--arrivals", "KIND", "poisson, uniform or burst", "poisson");
  more("--trace", "TRACE", "requests of a file, of synthetic:rate=5,… or built-in, at their own times");
  more("--speed", "FACTOR", "factor by which the times of a trace are shortened", "1");
  more("--rate-scale", "FACTOR", "factor by which the traffic of a trace is multiplied, at the same speed", "1");
  more("--format", "FORMAT", "of the trace's file", "auto");
  more("--profile", "PROFILE", "diurnal: the rate goes from trough to peak and back within a period");
  more("--period", "DURATION", "a day of the profile", "10m");
  more("--peak", "RATE", "highest rate of the profile", "10");
  more("--trough", "RATE", "lowest rate of the profile, where it begins", "a tenth of the peak");
  more("--burst-factor", "FACTOR", "factor of the rate during bursts", "1");
  more("--burst-every", "DURATION", "from one such burst to the next", "2m");
  more("--burst-length", "DURATION", "of one", "10s");
  more("--concurrency", "N", "so many requests at once, each followed by the next (closed loop)");
  more("--duration", "DURATION", "requests are sent for so long", "1m, a period, or the whole trace");
  more("--requests", "N", "and no more than so many");
  more("--seed", "SEED", "of everything that is drawn, and of the texts", "1");
  add("Requests", "--input-tokens", "LENGTHS", "500, 100..8000 (log-uniform) or 500:70%,4000:25%,16000:5%", "1000");
  add("Requests", "--output-tokens", "LENGTHS", "likewise", "150");
  add("Requests", "--shared-prefix-tokens", "TOKENS", "length of a prefix that requests share");
  add("Requests", "--prefixes", "N", "number of shared prefixes; the first is the most popular", "1");
  add("Requests", "--prefix-share", "SHARE", "share of requests with a shared prefix", "100%");
  add("Requests", "--class", "CLASS", "interactive, batch or batch:SHARE, as X-Traffic-Class");
  add("Requests", "--no-stream", "SHARE", "share of requests without streaming", "0%");
  usage.flags.push_back({"Requests", "--chat", {}, "send to /v1/chat/completions (the default)", {}});
  usage.flags.push_back({"Requests", "--completions", {}, "send to /v1/completions", {}});
  usage.flags.push_back(
      {"Requests", "--stop-at-eos", {}, "do not send ignore_eos: answers may be shorter than wanted", {}});
  add("Server", "--model", "NAME", "model of the requests", "the first of /v1/models");
  add("Server", "--api-key", "KEY", "sent as a bearer token", "the variable OPENAI_API_KEY");
  add("Server", "--tenant", "NAME=KEY:SHARE",
      "several keys, each with a share of the requests; may be given more than once");
  add("Server", "--tls-ca", "FILE", "trusted certificates, for https", "the system's");
  add("Limits", "--max-in-flight", "N", "of an open loop; a request that waits is measured from its intended start",
      "4096");
  add("Limits", "--timeout", "DURATION", "time limit of a request, from its intended start", "10m");
  add("Output", "--expect", "LIST", "ttft_p95=2s,itl_p95=50ms,errors=0,…: exit code 3 when one is not met");
  add("Output", "--json", "FILE", "write all figures");
  add("Output", "--html", "FILE", "write a page with charts");
  usage.notes =
      "Ctrl-C ends the run early; the report and the exit code cover the part that was measured.\n\n"
      "Examples:\n"
      "  penstock load http://127.0.0.1:8000 --rate 5 --input-tokens 100..8000 --expect "
      "ttft_p95=2s,itl_p95=50ms,errors=0\n"
      "  penstock load https://api.example.com --concurrency 32 --requests 1000 --shared-prefix-tokens 2000 --prefixes "
      "8\n"
      "  penstock load http://127.0.0.1:8000 --trace conversation.jsonl --speed 4 --html load.html\n"
      "  penstock load http://127.0.0.1:8000 --profile diurnal --period 10m --peak 20 --trough 2 --burst-factor 3\n";
  return usage;
}

}  // namespace penstock::cli
