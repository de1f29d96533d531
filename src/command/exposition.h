// Metrics as Prometheus and OpenMetrics read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace brim::command {

enum class MetricsFormat : uint8_t {
  prometheus,    ///< text format 0.0.4 (prometheus.io, "Exposition formats")
  open_metrics,  ///< 1.0 (RFC draft openmetrics.io, "OpenMetrics")
};

/// By what an HTTP client accepts.
MetricsFormat format_for(std::string_view accept);
const char* content_type(MetricsFormat format);

enum class MetricKind : uint8_t { gauge, counter };

/// A page of metrics, family by family.
class Exposition {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  /// `common`: of all samples.
  Exposition(MetricsFormat format, Labels common);

  /// What follows is of this family, whose name is a literal; counters end in "_total". A family
  /// without a sample is left out.
  void family(const char* name, MetricKind kind, const char* help);
  void sample(double value, const Labels& labels = {});
  /// The page.
  std::string finish();

 private:
  MetricsFormat format_;
  std::string common_, text_, head_;
  const char* name_ = "";
};

}  // namespace brim::command
