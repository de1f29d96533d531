// Where Prometheus finds a running training: `brim train --metrics [HOST:]PORT`.
#pragma once

#include <memory>
#include <string>

#include "command/http/server.h"
#include "command/run_document.h"

namespace brim::command {

struct MetricsAddress {
  std::string host = "127.0.0.1";
  int port = 0;  ///< 0: one that is free
};

/// "9400", "0.0.0.0:9400", "[::]:9400". Throws UsageError.
MetricsAddress parse_metrics_address(const std::string& text);

/// The first line of a file. Throws FileError, UsageError where that is no token.
std::string read_token(const std::string& path);

/// Throws UsageError for a host other than this one without a token.
void check_metrics(const MetricsAddress& address, const std::string& token_file);

/// Serves /metrics until its end. Throws Error.
std::unique_ptr<http::Server> serve_metrics(const MetricsAddress& address,
                                            const std::string& token_file, const RunDocument& run);

}  // namespace brim::command
