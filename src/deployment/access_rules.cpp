#include "deployment/access_rules.h"

#include <fmt/format.h>

namespace penstock::deployment {
namespace {

std::string list_of(const std::vector<std::string>& texts) {
  std::string made;
  for (const std::string& text : texts) made += fmt::format("{}\"{}\"", made.empty() ? "" : ", ", text);
  return "[" + made + "]";
}

}  // namespace

std::string role_line(const AccessRule& rule) {
  const std::string names = rule.names.empty() ? "" : ", resourceNames: " + list_of(rule.names);
  return fmt::format("{{apiGroups: [\"{}\"], resources: [\"{}\"]{}, verbs: {}}}", rule.group, rule.resource, names,
                     list_of(rule.verbs));
}

std::vector<AccessRule> gateway_access(const std::string& pods_namespace) {
  return {{pods_namespace, "", "pods", {"list", "watch"}, {}, "the gateway follows the pods that serve"}};
}

}  // namespace penstock::deployment
