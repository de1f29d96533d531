// Reads device profiles with toml++: every key is needed, unknown ones are errors.
#include "backend/sim/profile.h"

#include <toml++/toml.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "backend/sim/builtin_profiles.h"
#include "core/check.h"
#include "core/nearest.h"
#include "core/toml_limits.h"

namespace brim::sim {
namespace {

constexpr uintmax_t kMaxFile = 1 << 16;

/// One section of a profile.
class Section {
 public:
  Section(const toml::table& table, std::string file, std::string prefix)
      : table_(table), file_(std::move(file)), prefix_(std::move(prefix)) {}

  /// A number from `low` to `high`, times `unit`.
  double number(const char* key, double low, double high, double unit) {
    const toml::node* node = find(key);
    BRIM_CHECK(node, ValueError, "[profile] {}: '{}{}' is missing; give a number, {} to {}", file_,
               prefix_, key, low, high);
    const auto value = node->is_number() ? node->value<double>() : std::nullopt;
    BRIM_CHECK(value && *value >= low && *value <= high, ValueError,
               "[profile] {}:{}: '{}{}' must be a number, {} to {}", file_,
               node->source().begin.line, prefix_, key, low, high);
    return *value * unit;
  }
  double number_or(const char* key, double low, double high, double unit, double otherwise) {
    if (table_.contains(key)) return number(key, low, high, unit);
    known_.emplace_back(key);
    return otherwise;
  }
  bool has(const char* key) const { return table_.contains(key); }
  std::string text(const char* key) {
    const toml::node* node = find(key);
    const auto value = node ? node->value_exact<std::string>() : std::nullopt;
    BRIM_CHECK(value && !value->empty() && value->size() < 1024, ValueError,
               "[profile] {}: '{}{}' must be there, some text in quotes", file_, prefix_, key);
    return *value;
  }
  Section section(const char* key) {
    const toml::node* node = find(key);
    BRIM_CHECK(node && node->is_table(), ValueError, "[profile] {}: the section [{}] is missing",
               file_, key);
    return {*node->as_table(), file_, prefix_ + key + "."};
  }
  void finish() const {
    for (const auto& [key, node] : table_) {
      const std::string word(key.str().substr(0, 64));
      BRIM_CHECK(std::find(known_.begin(), known_.end(), word) != known_.end(), ValueError,
                 "[profile] {}:{}: unknown key '{}{}'{}", file_, node.source().begin.line, prefix_,
                 word, suggestion(word, known_));
    }
  }

 private:
  const toml::node* find(const char* key) {
    known_.emplace_back(key);
    return table_.get(key);
  }
  const toml::table& table_;
  std::string file_, prefix_;
  std::vector<std::string> known_;
};

toml::table parse_toml(std::string_view text, const std::string& name) {
  const std::string objection = beyond_toml_limits(text, kMaxFile);
  BRIM_CHECK(objection.empty(), ValueError, "[profile] {} has {}; this is no profile", name,
             objection);
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& e) {
    raise<ValueError>("[profile] {}:{}: {}; expected TOML", name, e.source().begin.line,
                      e.description());
  }
}

}  // namespace

double DeviceProfile::peak_of(DType dtype) const {
  const double rate = peak[static_cast<size_t>(dtype)];
  return rate > 0 ? rate : peak[static_cast<size_t>(DType::f32)];
}

double DeviceProfile::heated(double temperature, double power, double seconds) const {
  const double target = ambient + warmth * power;
  return target + (temperature - target) * std::exp(-seconds / settling);
}

DeviceProfile parse_profile(std::string_view toml, const std::string& name) {
  const toml::table table = parse_toml(toml, name);
  Section top(table, name, "");
  DeviceProfile p;
  p.name = top.text("name");
  p.source = top.text("source");
  p.memory = static_cast<int64_t>(top.number("memory_gb", 1e-3, 4096, 1e9));
  p.bandwidth = top.number("bandwidth_gb_s", 1e-3, 1e6, 1e9);
  p.host_link = top.number("host_link_gb_s", 1e-3, 1e6, 1e9);
  p.peer_link = top.number("peer_link_gb_s", 1e-3, 1e6, 1e9);
  p.link_delay = top.number("link_delay_us", 0, 1e6, 1e-6);
  p.launch = top.number("launch_us", 0, 1e6, 1e-6);
  p.kernel = top.number("kernel_us", 0, 1e6, 1e-6);
  Section peak = top.section("peak_tflops");
  for (int i = 0; is_computed(static_cast<DType>(i)); ++i) {
    const std::string key(brim::name(static_cast<DType>(i)));
    p.peak[static_cast<size_t>(i)] = i == static_cast<int>(DType::f32)
                                         ? peak.number(key.c_str(), 1e-6, 1e6, 1e12)
                                         : peak.number_or(key.c_str(), 1e-6, 1e6, 1e12, 0);
  }
  peak.finish();
  Section thermal = top.section("thermal");
  p.idle_power = thermal.number("idle_w", 0, 1e5, 1);
  p.peak_power = thermal.number("peak_w", 0, 1e5, 1);
  p.ambient = thermal.number("ambient_c", -100, 200, 1);
  p.warmth = thermal.number("warmth_c_per_w", 0, 1e3, 1);
  p.settling = thermal.number("settling_s", 1e-3, 1e6, 1);
  p.throttle_at = thermal.number("throttle_c", -100, 1000, 1);
  p.throttle_clock = thermal.number("throttle_clock", 0.01, 1, 1);
  p.clock = thermal.number_or("clock_mhz", 1, 1e5, 1, 0);
  thermal.finish();
  if (top.has("network")) {
    Section network = top.section("network");
    p.network = network.number("gbit_s", 1e-3, 1e5, 1e9 / 8);
    p.network_delay = network.number("delay_us", 0, 1e6, 1e-6);
    const double each = network.number_or("devices_per_host", 1, 1024, 1, 0);
    BRIM_CHECK(each == std::floor(each), ValueError,
               "[profile] {}: 'network.devices_per_host' is {}; give a whole number", name, each);
    p.devices_per_host = static_cast<int>(each);
    network.finish();
  }
  top.finish();
  return p;
}

DeviceProfile load_profile(const std::string& name_or_path) {
  std::vector<std::string> names;
  for (const BuiltinProfile& p : kBuiltinProfiles) {
    if (p.name == name_or_path) return parse_profile(p.toml, name_or_path);
    names.emplace_back(p.name);
  }
  std::error_code failed;
  const bool is_file = std::filesystem::is_regular_file(name_or_path, failed);
  BRIM_CHECK(is_file, FileError, "[profile] '{}' is neither a profile nor a file{}", name_or_path,
             suggestion(name_or_path, names));
  BRIM_CHECK(std::filesystem::file_size(name_or_path, failed) <= kMaxFile && !failed, FileError,
             "[profile] {} is larger than {} bytes; it does not look like a profile", name_or_path,
             kMaxFile);
  std::ifstream in(name_or_path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  BRIM_CHECK(in, FileError, "[profile] {} cannot be read; check its permissions", name_or_path);
  return parse_profile(text, name_or_path);
}

}  // namespace brim::sim
