// Tenants and models of the gateway.
#include "configuration/configuration.h"
#include "options/values.h"

namespace penstock::configuration {
namespace {

using namespace options;

constexpr std::size_t kTenantsMax = 10'000;
constexpr std::uint32_t kTokenCapMax = 100'000'000;

void add_caps(Table& table, dispatch::TokenCaps& caps) {
  table
      .add({"max_prompt_tokens", "", "most tokens of one prompt; over_context says what happens to a longer one"},
           count(caps.prompt_tokens, 1, kTokenCapMax))
      .by_default("no limit");
  table
      .add({"max_completion_tokens", "", "most tokens of one answer; a larger max_tokens is lowered to it"},
           count(caps.completion_tokens, 1, kTokenCapMax))
      .by_default("no limit");
}

void add_tenant(Table& table, TenantOptions& tenant) {
  using admission::OverloadAction;
  table.add({"name", "", "name of the tenant in ledger and metrics"}, text(tenant.name)).required();
  table.add({"keys", "", "API keys"}, names(tenant.keys)).secret();
  table.add({"key_files", "", "files that hold one API key each"}, names(tenant.key_files));
  table.add({"key_envs", "", "environment variables that hold one API key each"}, names(tenant.key_envs));
  table.add({"weight", "", "share of the capacity while others wait"}, number(tenant.weight, 0.001, 1000.0));
  table.add({"tier", "", "a higher tier is admitted first; may be negative"}, whole_number(tenant.tier, 1'000'000));
  table.add({"tokens_per_minute", "", "budget, prompt and output together; 0 is no limit"},
            number(tenant.budget.tokens_per_minute, 0.0, 1e12));
  table.add({"burst", "", "largest budget that can be saved up"}, number(tenant.budget.burst, 0.0, 1e12))
      .by_default("tokens of a minute");
  table.add({"over_budget", "",
             "of requests above the budget or `concurrent`: reject, queue (wait as their class does) or batch (become "
             "batch requests)"},
            named_choice(tenant.over_budget, {{"reject", dispatch::OverBudget::kReject},
                                              {"queue", dispatch::OverBudget::kQueue},
                                              {"batch", dispatch::OverBudget::kBatch}}));
  table.add({"reserve", "",
             "what a request takes from the budget until its end: worst (the most that it can use) or expected (the "
             "estimate)"},
            named_choice(tenant.reserve,
                         {{"worst", admission::Reserve::kWorst}, {"expected", admission::Reserve::kExpected}}));
  table.add({"concurrent", "", "requests at once; 0 is no limit"}, count(tenant.concurrent, 0, 1'000'000));
  table.add({"context", "", "most tokens of prompt and output together"}, count(tenant.context_tokens, 1, 100'000'000))
      .by_default("limit of the model");
  add_caps(table, tenant.caps);
  table
      .add({"over_context", "",
            "what happens to a prompt above context or max_prompt_tokens: reject, or truncate (drop its oldest part)"},
           choice(tenant.over_context, {dispatch::OverContext::kReject, dispatch::OverContext::kTruncate}))
      .by_default("that of the model");
  table.add({"models", "", "models that it may use"}, names(tenant.models)).by_default("all");
  table.add({"class", "", "traffic class of its requests; a request may name a lower one"},
            choice(tenant.traffic_class, {admission::Class::kInteractive, admission::Class::kBatch}));
  table
      .add({"overload", "", "what happens to its requests under overload: queue, degrade, drop or shed"},
           choice(tenant.overload,
                  {OverloadAction::kQueue, OverloadAction::kDegrade, OverloadAction::kDrop, OverloadAction::kShed}))
      .by_default("that of its class");
  table.add(
      {"priority", "", "priority of its requests at engines, where gateway.engine_priority is set; lower goes first"},
      whole_number(tenant.priority, 1'000'000));
  table
      .add({"isolation", "", "tenant: it shares no prefix cache with others; none: it does"},
           choice(tenant.isolation, {dispatch::Isolation::kNone, dispatch::Isolation::kTenant}))
      .by_default("gateway.isolation");
  table.add({"operator", "", "it may see which replica answered, and why"}, boolean(tenant.is_operator));
  // Names of other gateways.
  for (const std::string_view name : {"api_key", "api_keys"})
    table.renamed(name, "write keys, or key_files or key_envs to keep keys out of the file");
  table.renamed("tpm", "write tokens_per_minute");
  table.renamed("rpm",
                "requests per minute have no limit; write tokens_per_minute, or concurrent for requests at once");
  for (const std::string_view name : {"budget_usd", "max_budget"})
    table.renamed(name, "budgets are in tokens; write tokens_per_minute");
}

void add_model(Table& table, dispatch::Model& model) {
  table.add({"name", "", "name of the model in requests"}, text(model.name)).required();
  table.add({"input_price", "", "price of 1M prompt tokens (USD)"}, number(model.price.input, 0.0, 1e9));
  table
      .add({"cached_input_price", "", "price of 1M prompt tokens that were in a cache (USD)"},
           number(model.price.cached_input, 0.0, 1e9))
      .by_default("input_price");
  table.add({"output_price", "", "price of 1M output tokens (USD)"}, number(model.price.output, 0.0, 1e9));
  // Names of other gateways.
  for (const std::string_view name : {"prompt_price", "input_cost_per_token"})
    table.renamed(name, "write input_price, of 1M tokens");
  for (const std::string_view name : {"completion_price", "output_cost_per_token"})
    table.renamed(name, "write output_price, of 1M tokens");
  table
      .add({"context", "", "most tokens of prompt and output together, if that is below the limit of its replicas"},
           count(model.context_tokens, 1, 100'000'000))
      .by_default("limit of its replicas");
  add_caps(table, model.caps);
  table.add({"over_context", "",
             "what happens to a prompt above context or max_prompt_tokens: reject, or truncate (drop its oldest part)"},
            choice(model.over_context, {dispatch::OverContext::kReject, dispatch::OverContext::kTruncate}));
}

}  // namespace

void add_tenants(Table& table, GatewaySetup& setup) {
  table
      .list<TenantOptions>({"tenants", "", "tenants with their keys, budgets and limits"}, setup.tenants, kTenantsMax,
                           add_tenant)
      .reloadable();
  table
      .list<dispatch::Model>({"models", "", "models with their prices and context lengths"},
                             setup.options.dispatch.models, kTenantsMax, add_model)
      .reloadable();
}

}  // namespace penstock::configuration
