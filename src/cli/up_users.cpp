#include "cli/up_users.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "configuration/configuration.h"
#include "options/yaml.h"

namespace penstock::cli {
namespace {

constexpr std::string_view kDemo = "demo";
// Of the load, by tenant, in percent. `penstock load` scales them to add up to 100.
constexpr std::array<std::pair<std::string_view, int>, 3> kShares{{{"shop", 50}, {"search", 30}, {"nightly", 20}}};
constexpr int kOtherShare = 30;

int share_of(std::string_view tenant) {
  const auto known = std::ranges::find(kShares, tenant, &std::pair<std::string_view, int>::first);
  return known == kShares.end() ? kOtherShare : known->second;
}

}  // namespace

std::string UpUsers::key() const {
  if (tenants.empty()) return {};
  const auto demo = std::ranges::find(tenants, kDemo, &load::Sender::name);
  return (demo == tenants.end() ? tenants.front() : *demo).key;
}

std::string UpUsers::text() const {
  std::string text = "model " + (models.empty() ? model : fmt::format("{}", fmt::join(models, " or ")));
  if (const std::string known = key(); !known.empty()) return text + ", key " + known;
  return text + (checks_keys ? ", key of one of your tenants" : ", no key needed");
}

std::vector<std::string> UpUsers::load_arguments() const {
  std::vector<std::string> words;
  for (const load::Sender& tenant : tenants) {
    if (tenant.name == kDemo && tenants.size() > 1) continue;
    words.emplace_back("--tenant");
    words.push_back(fmt::format("{}={}:{}%", tenant.name, tenant.key, share_of(tenant.name)));
  }
  return words;
}

UpUsers users_of(const std::string& config) {
  UpUsers users;
  auto text = options::read_text_file(config, options::YamlLimits{}.bytes_max);
  if (!text) return users;
  const auto made = configuration::load_configuration({config, *std::move(text), {}});
  if (!made) return users;
  if (!made->run.model.empty()) users.model = made->run.model;
  for (const configuration::DeploymentSetup& deployment : made->deployments)
    users.models.push_back(deployment.run.model);
  users.checks_keys = !made->gateway.tenants.empty();
  for (const configuration::TenantOptions& tenant : made->gateway.tenants)
    if (!tenant.keys.empty()) users.tenants.push_back({tenant.name, tenant.keys.front()});
  return users;
}

}  // namespace penstock::cli
