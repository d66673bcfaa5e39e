// Options of the endpoint picker: requests that Envoy sends to the replicas itself.
#include "configuration/configuration.h"
#include "options/values.h"

namespace penstock::configuration {
namespace {

using namespace options;

}  // namespace

void add_endpoint_picker(Table& table, EndpointPickerSetup& picker) {
  table.group("Endpoint picker");
  table.add({"gateway.endpoint_picker.listen", "--endpoint-picker-listen",
             "address where Envoy asks by ext_proc which replica gets a request; see docs/endpoint-picker.md"},
            address(picker.listen));
  table.add({"gateway.endpoint_picker.health_listen", "--endpoint-picker-health-listen",
             "address of gRPC health checks without TLS; by default they are answered at the picker's address only"},
            address(picker.health_listen));
  table
      .add({"gateway.endpoint_picker.tls", "--endpoint-picker-tls",
            "TLS at the picker's address, with a self-signed certificate where none is named"},
           boolean(picker.tls))
      .reloadable();
  table
      .add({"gateway.endpoint_picker.certificate", "--endpoint-picker-certificate",
            "PEM file with the certificate chain of the picker's address"},
           text(picker.certificate))
      .reloadable();
  table
      .add({"gateway.endpoint_picker.key", "--endpoint-picker-key", "PEM file with the key of that certificate"},
           text(picker.key))
      .reloadable();
}

}  // namespace penstock::configuration
