#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace brim::cli {
namespace {

/// Against `--out "$UNSET"`, which would mean: no --out at all.
const CLI::Validator not_empty(
    [](const std::string& text) { return text.empty() ? kEmptyValue : std::string(); }, "");

const CLI::Validator not_nan(
    [](const std::string& text) {
      double value = 0;
      return CLI::detail::lexical_cast(text, value) && std::isnan(value) ? "nan is no number"
                                                                         : std::string();
    },
    "");

}  // namespace

Argument Argument::required() {
  option_->required();
  return *this;
}

Argument Argument::show_default() {
  option_->capture_default_str();
  return *this;
}

template <class T>
Argument Argument::range(T low, T high) {
  if constexpr (std::is_floating_point_v<T>) option_->check(not_nan);  // which no bound excludes
  option_->check(CLI::Range(low, high));
  return *this;
}
template Argument Argument::range(int, int);
template Argument Argument::range(int64_t, int64_t);
template Argument Argument::range(double, double);

Argument Argument::one_of(std::initializer_list<const char*> words) {
  option_->check(CLI::IsMember(std::vector<std::string>(words.begin(), words.end())));
  return *this;
}

Argument Argument::one_each() {
  option_->allow_extra_args(false);
  return *this;
}

Argument Argument::file() {
  option_->type_name("FILE");
  return *this;
}

template <class T>
Argument Arguments::add(const char* name, T& value, const char* help) {
  return Argument(app_->add_option(name, value, help)->check(not_empty));
}
template Argument Arguments::add(const char*, std::string&, const char*);
template Argument Arguments::add(const char*, std::vector<std::string>&, const char*);
template Argument Arguments::add(const char*, int&, const char*);
template Argument Arguments::add(const char*, int64_t&, const char*);
template Argument Arguments::add(const char*, uint64_t&, const char*);
template Argument Arguments::add(const char*, double&, const char*);
template Argument Arguments::add(const char*, std::optional<int64_t>&, const char*);
template Argument Arguments::add(const char*, std::optional<uint64_t>&, const char*);
template Argument Arguments::add(const char*, std::optional<double>&, const char*);

Argument Arguments::flag(const char* name, bool& value, const char* help) {
  return Argument(app_->add_flag(name, value, help));
}

Arguments Arguments::subcommand(const char* name, const char* help) {
  return Arguments(app_->add_subcommand(name, help));
}

void Arguments::require_subcommand() { app_->require_subcommand(1); }

bool Arguments::chosen() const { return app_->parsed(); }

std::vector<std::string> Arguments::given(const char* name) const {
  const CLI::Option* option = app_->get_option(name);
  return option->count() > 0 ? option->results() : std::vector<std::string>{};
}

}  // namespace brim::cli
