#include "command/arguments.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace brim::command {
namespace {

/// Against `--out "$UNSET"`, which would mean: no --out at all.
const CLI::Validator not_empty(
    [](const std::string& text) { return text.empty() ? kEmptyValue : std::string(); }, "");

/// Decimal numbers alone: CLI11 takes 010 for 8, 0x10 for 16 and the nearest number that fits for
/// one that does not. What follows reads whole numbers without leading zeros.
template <class T>
std::string to_decimal(std::string& text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range) return fmt::format("'{}' is out of range", text);
  if (error != std::errc() || at != end)
    return fmt::format("'{}' is no {}; write decimal digits, without a plus sign", text,
                       std::is_integral_v<T> ? "whole number" : "number");
  if constexpr (std::is_integral_v<T>)
    text = std::to_string(value);
  else if (std::isnan(value))  // which no bound excludes
    return "nan is no number";
  return {};
}

template <class T>
struct NumberIn {
  using type = T;
};
template <class T>
struct NumberIn<std::optional<T>> {
  using type = T;
};
template <class T>
struct NumberIn<std::vector<T>> {
  using type = T;
};

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

Argument Argument::comma_separated() {
  option_->allow_extra_args(false)->delimiter(',');
  return *this;
}

Argument Argument::file() {
  option_->type_name("FILE");
  return *this;
}

template <class T>
Argument Arguments::add(const char* name, T& value, const char* help) {
  CLI::Option* const option = app_->add_option(name, value, help);
  using Number = typename NumberIn<T>::type;
  if constexpr (std::is_floating_point_v<Number>)
    option->transform(CLI::Validator(to_decimal<double>, ""));
  else if constexpr (std::is_integral_v<Number>)  // ranges are of int64_t at most
    option->transform(CLI::Validator(to_decimal<int64_t>, ""));
  option->transform(not_empty);  // looked at first
  return Argument(option);
}
template Argument Arguments::add(const char*, std::string&, const char*);
template Argument Arguments::add(const char*, std::vector<std::string>&, const char*);
template Argument Arguments::add(const char*, std::vector<int64_t>&, const char*);
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

Argument Arguments::flag(const char* name, std::optional<bool>& value, const char* help) {
  const std::string description = help;
  CLI::Option* const option = app_->add_flag(name, description);
  option->check(CLI::IsMember({"true", "false"}));
  option->each([&value](const std::string& text) { value = text == "true"; });
  return Argument(option);
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

}  // namespace brim::command
