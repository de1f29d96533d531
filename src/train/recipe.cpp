// Reads recipes with toml++, strictly, and writes them.
#include <brim/compress/prune.h>
#include <brim/plan/compile.h>
#include <brim/train/recipe.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <map>
#include <sstream>
#include <utility>

#include "core/check.h"
#include "core/nearest.h"
#include "core/printable.h"
#include "core/toml_limits.h"
#include "io/regular_file.h"
#include "io/text.h"
#include "train/builtin_recipes.h"
#include "train/recipe_fields.h"

namespace brim::train {
namespace {

constexpr uint64_t kMaxFile = 1 << 20;

std::string str(const Range& r) {
  return fmt::format("{} {} to {} {}", r.open_low ? "above" : "from", r.low,
                     r.open_high ? "below" : "at most", r.high);
}
bool inside(double value, const Range& r) {
  return std::isfinite(value) && (r.open_low ? value > r.low : value >= r.low) &&
         (r.open_high ? value < r.high : value <= r.high);
}

/// Fills a recipe from a TOML table and notices every key that was not asked for.
class Reader {
 public:
  Reader(const toml::table& table, const std::string& name) : table_(&table), name_(name) {}

  void choice(const char* key, std::string& value, const std::vector<std::string>& valid) {
    text(key, value);
    BRIM_CHECK(std::find(valid.begin(), valid.end(), value) != valid.end(), ValueError,
               "[recipe] {}: {} '{}' is unknown{}", place(key), path(key), value,
               suggestion(value, valid));
  }
  void text(const char* key, std::string& value) {
    if (const toml::node* node = find(key)) {
      const auto found = node->value_exact<std::string>();
      BRIM_CHECK(found && !found->empty() && found->size() < 4096 &&
                     found->find('\n') == std::string::npos,
                 ValueError, "[recipe] {}: {} must be a line of text in quotes", place(key),
                 path(key));
      value = *found;
    }
  }
  void line(const char* key, std::string& value) {
    text(key, value);  // what may stand there is a matter of who reads it
  }
  void flag(const char* key, bool& value) {
    if (const toml::node* node = find(key)) {
      const auto found = node->value_exact<bool>();
      BRIM_CHECK(found, ValueError, "[recipe] {}: {} must be true or false", place(key), path(key));
      value = *found;
    }
  }
  template <std::integral T>
  void number(const char* key, T& value, const Range& range) {
    if (const toml::node* node = find(key)) {
      const auto found = node->value_exact<int64_t>();
      BRIM_CHECK(found && inside(static_cast<double>(*found), range), ValueError,
                 "[recipe] {}: {} must be an integer, {}", place(key), path(key), str(range));
      value = static_cast<T>(*found);
    }
  }
  void number(const char* key, double& value, const Range& range) {
    if (const toml::node* node = find(key)) value = real(*node, key, range);
  }
  void list(const char* key, std::vector<double>& values, const Range& range) {
    if (const toml::node* node = find(key)) {
      const toml::array* array = node->as_array();
      BRIM_CHECK(array && !array->empty() && array->size() <= 16, ValueError,
                 "[recipe] {}: {} must be a list of numbers, one per channel", place(key),
                 path(key));
      values.clear();
      for (const toml::node& entry : *array) values.push_back(real(entry, key, range));
    }
  }
  void numbers(const char* key, std::map<std::string, double>& values, const Range& range) {
    if (const toml::node* node = find(key)) {
      const toml::table* table = node->as_table();
      BRIM_CHECK(table && table->size() <= 100'000, ValueError,
                 "[recipe] {}: {} must name numbers, as {{ \"layer1.0.conv1\" = 0.9 }}", place(key),
                 path(key));
      values.clear();
      for (const auto& [name, entry] : *table) values[std::string(name)] = real(entry, key, range);
    }
  }
  void texts(const char* key, std::vector<std::string>& values) {
    if (const toml::node* node = find(key)) {
      const toml::array* array = node->as_array();
      BRIM_CHECK(array && array->size() <= 100'000, ValueError,
                 "[recipe] {}: {} must be a list of texts in quotes", place(key), path(key));
      values.clear();
      for (const toml::node& entry : *array) {
        const auto found = entry.value_exact<std::string>();
        BRIM_CHECK(found && !found->empty() && found->size() < 4096 &&
                       found->find('\n') == std::string::npos,
                   ValueError, "[recipe] {}: {} must be a list of texts in quotes", place(key),
                   path(key));
        values.push_back(*found);
      }
    }
  }
  void choices(const char* key, std::vector<std::string>& values,
               const std::vector<std::string>& valid) {
    texts(key, values);
    for (const std::string& value : values)
      BRIM_CHECK(std::find(valid.begin(), valid.end(), value) != valid.end(), ValueError,
                 "[recipe] {}: {} '{}' is unknown{}", place(key), path(key), value,
                 suggestion(value, valid));
  }
  void option(const char* key, std::string& value, const std::vector<std::string>& valid) {
    if (find(key)) choice(key, value, valid);
  }
  template <class Body>
  void section(const char* key, const Body& body) {
    static const toml::table empty;
    const toml::table* inner = &empty;
    if (const toml::node* node = find(key)) {
      inner = node->as_table();
      BRIM_CHECK(inner, ValueError, "[recipe] {}: {} must be a section, [{}]", place(key),
                 path(key), key);
    }
    Reader reader(*inner, name_);
    reader.prefix_ = prefix_ + key + ".";
    std::swap(*this, reader);
    body();
    finish();
    std::swap(*this, reader);
  }

  template <class Body>
  void where(bool has_them, const char* owner, const Body& body) {
    owner_ = has_them ? nullptr : owner;
    body();
    owner_ = nullptr;
  }

  void finish() const {
    for (const auto& [key, node] : *table_) {
      const std::string text(key.str());
      if (const auto found = absent_.find(text); found != absent_.end())
        raise<ValueError>("[recipe] {}:{}: '{}{}' is only for {}", name_, node.source().begin.line,
                          prefix_, text, found->second);
      BRIM_CHECK(std::find(known_.begin(), known_.end(), text) != known_.end(), ValueError,
                 "[recipe] {}:{}: unknown key '{}{}'{}", name_, node.source().begin.line, prefix_,
                 io::shortened(text), suggestion(text, known_));
    }
  }

 private:
  const toml::node* find(const char* key) {
    if (owner_) {
      absent_.emplace(key, owner_);
      return nullptr;
    }
    known_.emplace_back(key);
    return table_->get(key);
  }
  double real(const toml::node& node, const char* key, const Range& range) const {
    const auto found = node.value<double>();
    BRIM_CHECK(node.is_number() && found && inside(*found, range), ValueError,
               "[recipe] {}: {} must be a number, {}", place(key), path(key), str(range));
    return *found;
  }
  std::string path(const char* key) const { return prefix_ + key; }
  std::string place(const char* key) const {
    const toml::node* node = table_->get(key);
    return node ? fmt::format("{}:{}", name_, node->source().begin.line) : name_;
  }

  const toml::table* table_;
  std::string name_;
  std::string prefix_;
  std::vector<std::string> known_;
  std::map<std::string, std::string> absent_;  // keys of other recipes, and whose they are
  const char* owner_ = nullptr;                // of the keys that are visited now, if others'
};

/// Writes a recipe. Text is quoted by toml++, numbers so that they read back exactly.
class Writer {
 public:
  std::string out;

  template <class T>
  void choice(const char* key, const T& value, const std::vector<std::string>&) {
    this->value(key, value);
  }
  template <class T>
  void number(const char* key, const T& number, const Range&) {
    value(key, number);
  }
  void list(const char* key, const std::vector<double>& values, const Range&) {
    std::string joined;
    for (const double v : values) joined += (joined.empty() ? "" : ", ") + real(v);
    out += fmt::format("{} = [{}]\n", key, joined);
  }
  void numbers(const char* key, const std::map<std::string, double>& values, const Range&) {
    if (values.empty()) return;
    std::string joined;
    for (const auto& [name, v] : values)
      joined += fmt::format("{}{} = {}", joined.empty() ? "" : ", ", quoted(name), real(v));
    out += fmt::format("{} = {{ {} }}\n", key, joined);
  }
  void texts(const char* key, const std::vector<std::string>& values) {
    if (values.empty()) return;
    std::string joined;
    for (const std::string& v : values) joined += (joined.empty() ? "" : ", ") + quoted(v);
    out += fmt::format("{} = [{}]\n", key, joined);
  }
  void choices(const char* key, const std::vector<std::string>& values,
               const std::vector<std::string>&) {
    texts(key, values);
  }
  void option(const char* key, const std::string& s, const std::vector<std::string>&) {
    if (!s.empty()) value(key, s);
  }
  void line(const char* key, const std::string& s) {
    if (!s.empty()) value(key, s);
  }
  void flag(const char* key, bool on) { out += fmt::format("{} = {}\n", key, on); }
  void text(const char* key, const std::string& s) { value(key, s); }
  template <class Body>
  void where(bool has_them, const char*, const Body& body) {
    if (has_them) body();
  }
  template <class Body>
  void section(const char* key, const Body& body) {
    const std::string before = std::exchange(out, "");
    body();
    out = out.empty() ? before : fmt::format("{}\n[{}]\n{}", before, key, out);
  }

 private:
  static std::string real(double v) {
    const std::string s = fmt::format("{}", v);
    return s.find_first_of(".e") == std::string::npos ? s + ".0" : s;
  }
  static std::string quoted(const std::string& s) {
    std::ostringstream text;
    text << toml::value<std::string>(s);
    return text.str();
  }
  void value(const char* key, const std::string& s) {
    out += fmt::format("{} = {}\n", key, quoted(s));
  }
  void value(const char* key, double v) { out += fmt::format("{} = {}\n", key, real(v)); }
  template <std::integral T>
  void value(const char* key, T v) {
    out += fmt::format("{} = {}\n", key, v);
  }
};

std::string read_file(const std::string& path) {
  const std::string wanted =
      fmt::format("a TOML file or one of {}", fmt::join(recipe_names(), ", "));
  const io::RegularFile file(path, "recipe", wanted.c_str());
  BRIM_CHECK(file.bytes() <= kMaxFile, FileError,
             "[recipe] {} is larger than {} bytes; this is no recipe", path, kMaxFile);
  std::string text(file.bytes(), '\0');
  file.read(text.data(), text.size(), 0);
  return text;
}

/// Ranges through the same list of keys, for recipes that were changed by options.
class Checker {
 public:
  template <class T>
  void choice(const char* key, const T& value, const std::vector<std::string>& valid) {
    BRIM_CHECK(std::find(valid.begin(), valid.end(), value) != valid.end(), ValueError,
               "[recipe] {} '{}' is unknown{}", prefix_ + key, value, suggestion(value, valid));
  }
  void choices(const char* key, const std::vector<std::string>& values,
               const std::vector<std::string>& valid) {
    for (const std::string& value : values) choice(key, value, valid);
  }
  void text(const char*, const std::string&) {}
  void line(const char*, const std::string&) {}
  void texts(const char*, const std::vector<std::string>&) {}
  void option(const char* key, const std::string& value, const std::vector<std::string>& valid) {
    if (!value.empty()) choice(key, value, valid);
  }
  void flag(const char*, bool) {}
  template <class T>
  void number(const char* key, const T& value, const Range& range) {
    BRIM_CHECK(inside(static_cast<double>(value), range), ValueError,
               "[recipe] {} is {}; it must be a number, {}", prefix_ + key, value, str(range));
  }
  void list(const char* key, const std::vector<double>& values, const Range& range) {
    for (const double v : values) number(key, v, range);
  }
  void numbers(const char* key, const std::map<std::string, double>& values, const Range& range) {
    for (const auto& [name, v] : values) number(fmt::format("{}.{}", key, name).c_str(), v, range);
  }
  template <class Body>
  void where(bool has_them, const char*, const Body& body) {
    if (has_them) body();
  }
  template <class Body>
  void section(const char* key, const Body& body) {
    prefix_ = std::string(key) + ".";
    body();
    prefix_.clear();
  }

 private:
  std::string prefix_;
};

void check_rounds(const Recipe& r) {
  const PruneRecipe& p = r.prune;
  BRIM_CHECK(
      compress::parse_pattern(p.pattern).kind != compress::Pattern::Kind::n_of_m || p.rounds == 1,
      ValueError,
      "[recipe] {}: {} rounds of pruning (prune.rounds), and {} says how many weights go "
      "in the first one; give 1",
      r.name, p.rounds, p.pattern);
  BRIM_CHECK(p.rewind_epoch < r.epochs, ValueError,
             "[recipe] {}: rewinding to the end of epoch {} (prune.rewind_epoch) of {} leaves "
             "nothing to train; rewind further",
             r.name, p.rewind_epoch, r.epochs);
  BRIM_CHECK(p.rewind_epoch == 0 || !p.is_trained, ValueError,
             "[recipe] {}: a network that is trained (prune.is_trained) is pruned before its first "
             "epoch, and cannot be rewound to the end of epoch {}; name the weights of then as "
             "prune.rewind_weights",
             r.name, p.rewind_epoch);
  BRIM_CHECK(p.rewind_weights.empty() || (p.rewind == "weights" && p.rewind_epoch == 0), ValueError,
             "[recipe] {}: the weights of {} (prune.rewind_weights) are rewound to, with "
             "prune.rewind = \"weights\" and without a prune.rewind_epoch",
             r.name, p.rewind_weights);
}

void check_prune(const Recipe& r) {
  const PruneRecipe& p = r.prune;
  if (p.is_of_channels()) {
    BRIM_CHECK(p.epochs == 0 && p.schedule == "gradual", ValueError,
               "[recipe] {}: whole channels go at once, before the first step: what is trained is "
               "the smaller network; leave {} out, or take vectors",
               r.name, p.epochs == 0 ? "prune.schedule" : "prune.epochs");
    BRIM_CHECK(p.scope == "layer", ValueError,
               "[recipe] {}: prune.scope = \"{}\": of whole channels each layer loses the same "
               "share; leave it out, or take vectors",
               r.name, p.scope);
    return;
  }
  if (!p.pattern.empty())
    BRIM_CHECK(
        compress::parse_pattern(p.pattern).kind != compress::Pattern::Kind::n_of_m ||
            p.scope == "layer",
        ValueError,
        "[recipe] {}: prune.scope = \"{}\": {} leaves each layer as many numbers; leave it out",
        r.name, p.scope, p.pattern);
  if (p.is_iterative()) return check_rounds(r);
  BRIM_CHECK(
      p.pattern.empty() || p.epochs <= static_cast<double>(r.epochs), ValueError,
      "[recipe] {}: the sparsity rises for {} epochs (prune.epochs), and there are {}; train "
      "longer, or let it rise faster",
      r.name, p.epochs, r.epochs);
}

void check_values(const Recipe& r) {
  Checker checker;
  visit_recipe(checker, r);
  BRIM_CHECK(
      r.input.mean.size() == r.input.std.size(), ValueError,
      "[recipe] {}: input.mean has {} numbers and input.std {}; give one per channel to both",
      r.name, r.input.mean.size(), r.input.std.size());
  BRIM_CHECK(!r.input.random_resized_crop || r.input.size > 0, ValueError,
             "[recipe] {}: input.random_resized_crop needs input.size, the size of the result",
             r.name);
  BRIM_CHECK(!r.input.random_resized_crop || r.input.crop_padding == 0, ValueError,
             "[recipe] {}: input.random_resized_crop and input.crop_padding are two ways to crop; "
             "take one",
             r.name);
  BRIM_CHECK(!r.optimizer.nesterov || r.optimizer.momentum > 0, ValueError,
             "[recipe] {}: optimizer.nesterov needs optimizer.momentum above 0", r.name);
  constexpr double kMaxChannels = 1 << 30;
  for (const auto* channels : {&r.channels.inputs, &r.channels.outputs})
    for (const auto& [name, count] : *channels)
      BRIM_CHECK(count >= 1 && count <= kMaxChannels && count == std::floor(count), ValueError,
                 "[recipe] {}: '{}' has {} channels; give a whole number from 1 on", r.name, name,
                 count);
  check_prune(r);
}

}  // namespace

void check_recipe(const Recipe& r) {
  check_values(r);
  // Checkpoints and weights keep both in JSON.
  BRIM_CHECK(is_utf8(r.name), ValueError,
             "[recipe] {}: this name is not UTF-8, so no checkpoint could keep it; rename the file",
             r.name);
  BRIM_CHECK(is_utf8(r.data), ValueError,
             "[recipe] data {}: this path is not UTF-8, so no checkpoint could keep it; rename it "
             "or make a link to it",
             r.data);
}

Recipe parse_recipe(std::string_view document, const std::string& name) {
  Recipe recipe{.name = name};
  const std::string objection = beyond_toml_limits(document, kMaxFile);
  BRIM_CHECK(objection.empty(), FileError, "[recipe] {} has {}; this is no recipe", name,
             objection);
  try {
    const toml::table table = toml::parse(document);
    Reader reader(table, name);
    visit_recipe(reader, recipe);
    reader.finish();
  } catch (const toml::parse_error& e) {
    raise<FileError>("[recipe] {}:{}:{}: not TOML: {}", name, e.source().begin.line,
                     e.source().begin.column, io::shortened(e.description(), 200));
  }
  check_values(recipe);  // `name` may be a path of any bytes here
  return recipe;
}

Recipe load_recipe(const std::string& name_or_path) {
  for (const BuiltinRecipe& builtin : kBuiltinRecipes)
    if (builtin.name == name_or_path) return parse_recipe(builtin.toml, name_or_path);
  const bool is_path =
      name_or_path.ends_with(".toml") || name_or_path.find('/') != std::string::npos;
  BRIM_CHECK(is_path, ValueError, "[recipe] '{}' is no built-in recipe{}; a file ends in .toml",
             name_or_path, suggestion(name_or_path, recipe_names()));
  const Recipe recipe = parse_recipe(read_file(name_or_path), name_or_path);
  check_recipe(recipe);
  try {
    plan::check_passes(recipe.speed.passes);
  } catch (const ValueError& e) {
    raise<ValueError>("[recipe] {}: speed.passes: {}", name_or_path, e.what());
  }
  return recipe;
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const BuiltinRecipe& builtin : kBuiltinRecipes) names.emplace_back(builtin.name);
  return names;
}

DType autocast_dtype(const Recipe& recipe) {
  return recipe.precision == "fp16"   ? DType::f16
         : recipe.precision == "bf16" ? DType::bf16
                                      : DType::f32;
}

std::string Recipe::learned_toml() const {
  Recipe recipe = *this;
  recipe.speed = {};
  return recipe.toml();
}

std::string Recipe::toml() const {
  Writer writer;
  visit_recipe(writer, *this);
  return writer.out;
}

}  // namespace brim::train
