// What the container of a gateway or a planner must have for a configuration.
#pragma once

#include <string>

#include "configuration/configuration.h"
#include "deployment/manifests.h"
#include "options/reading.h"

namespace penstock::cli {

// Adds files and variables to the manifest, and reports what the container cannot have at its place in the file.
class ContainerNeeds {
 public:
  // Both outlive it.
  ContainerNeeds(options::Reading& reading, deployment::ProgramManifest& program)
      : reading_{reading}, program_{program} {}

  void gateway(const configuration::GatewaySetup& setup);
  void planner(const configuration::Configuration& made);

  // `path` is that of the option. An empty name is that of nothing.
  void read_file(const std::string& path, const std::string& file);
  void write_file(const std::string& path, const std::string& file);
  void variable(const std::string& path, const std::string& name);

 private:
  void secret(bool is_given) { program_.configuration_is_secret |= is_given; }
  void credentials(const std::string& path, const net::CredentialOptions& credentials);
  void replicas(const configuration::GatewaySetup& setup);
  void nats(const connect::NatsAccess& access);
  void step_time_model(const std::string& path, const std::string& model);
  void deployment(const configuration::Configuration& made);

  options::Reading& reading_;
  deployment::ProgramManifest& program_;
};

}  // namespace penstock::cli
