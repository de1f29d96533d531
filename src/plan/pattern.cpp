#include "plan/pattern.h"

#include <algorithm>

#include "core/check.h"
#include "core/take_word.h"

namespace brim::plan {
namespace {

bool is_word(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

PatternOperand read_operand(std::string_view text, std::string_view line) {
  PatternOperand o;
  std::string_view rest = text;
  o.may_be_left_out = rest.ends_with('?');
  if (o.may_be_left_out) rest.remove_suffix(1);
  o.operand = take_word(rest, ':');
  std::string_view name = rest.empty() ? std::string_view(o.operand) : without_blanks_around(rest);
  o.left_out = name == "-";
  if (name.ends_with(".T")) {
    o.transposed = true;
    name.remove_suffix(2);
  }
  if (!o.left_out) o.name = name;
  BRIM_CHECK(is_word(o.operand) && (o.left_out || is_word(o.name)), Error,
             "[pattern] '{}' in '{}' is no operand", text, line);
  return o;
}

PatternLaunch read_launch(std::string_view line) {
  using Kind = PatternLaunch::Kind;
  PatternLaunch l;
  std::string_view rest = line;
  for (const auto& [mark, kind] :
       {std::pair('?', Kind::optional), {'~', Kind::bridged}, {'@', Kind::witness}})
    if (rest.starts_with(mark)) {
      l.kind = kind;
      rest = without_blanks_around(rest.substr(1));
      break;
    }
  std::string_view head = take_word(rest, '(');
  if (head.find('=') != std::string_view::npos) l.label = take_word(head, '=');
  head = without_blanks_around(head);
  if (head.ends_with("[]")) {
    l.element = true;
    head.remove_suffix(2);
  }
  while (!head.empty()) l.kernels.emplace_back(take_word(head, '|'));
  BRIM_CHECK(rest.ends_with(')') && !l.kernels.empty() &&
                 std::all_of(l.kernels.begin(), l.kernels.end(), is_word),
             Error, "[pattern] '{}' is no launch", line);
  rest.remove_suffix(1);
  while (!rest.empty()) l.operands.push_back(read_operand(take_word(rest, ','), line));
  if (l.label.empty()) l.label = l.kernels[0];
  return l;
}

}  // namespace

Pattern read_pattern(std::string_view text) {
  Pattern p;
  while (!text.empty()) {
    const std::string_view line = take_word(text, '\n');
    if (line.empty()) continue;
    if (line == "---") {
      ++p.parts;
      continue;
    }
    p.launches.push_back(read_launch(line));
    p.launches.back().part = p.parts - 1;
  }
  for (size_t i = 0; i < p.launches.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      BRIM_CHECK(p.launches[i].label != p.launches[k].label, Error,
                 "[pattern] two launches are called '{}'; give one a label", p.launches[i].label);
  BRIM_CHECK(std::any_of(p.launches.begin(), p.launches.end(),
                         [](const auto& l) { return l.kind == PatternLaunch::Kind::required; }),
             Error, "[pattern] no launch is required");
  return p;
}

}  // namespace brim::plan
