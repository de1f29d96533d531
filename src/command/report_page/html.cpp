#include "command/report_page/html.h"

#include "command/report_page/embedded.h"
#include "core/check.h"

namespace brim::command::page {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string json_for_script(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i);
    if (text[i] == '<') {  // </script>, <!--
      safe += "\\u003c";
    } else if (text[i] == '>') {
      safe += "\\u003e";
    } else if (text[i] == '&') {
      safe += "\\u0026";
    } else if (rest.starts_with("\u2028") || rest.starts_with("\u2029")) {
      safe += rest.starts_with("\u2028") ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      safe += text[i];
    }
  }
  return safe;
}

std::string escaped_for_html(std::string_view text) {
  std::string safe;
  for (const char c : text) switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  return safe;
}

std::string filled(std::string_view template_text,
                   const std::function<std::string(std::string_view)>& value_of) {
  std::string text;
  while (true) {
    const size_t begin = template_text.find("{{"), end = template_text.find("}}", begin);
    if (end == std::string_view::npos) return text.append(template_text);
    text.append(template_text.substr(0, begin));
    text += value_of(template_text.substr(begin + 2, end - begin - 2));
    template_text.remove_prefix(end + 2);
  }
}

std::string html_page(const Json& model, const std::string& language) {
  BRIM_CHECK(!chart_js().empty(), Error,
             "[report] this brim was built without Chart.js, which draws the charts; apt-get "
             "install libjs-chart.js, then build again");
  const Json all = Json::parse(texts());
  const Json& words = all.at(language);
  std::string title = words.at("title");
  for (const Json& run : model["runs"])
    title += (&run == &model["runs"].front() ? ": " : ", ") + run["name"].get<std::string>();
  return filled(html_template(), [&](std::string_view name) -> std::string {
    if (name == "language") return language;
    if (name == "title") return escaped_for_html(title);
    if (name == "no_script") return escaped_for_html(words.at("no_script").get<std::string>());
    if (name == "style") return std::string(style());
    if (name == "chart_js") return std::string(chart_js());
    if (name == "texts") return json_for_script(words);
    if (name == "data") return json_for_script(model);
    if (name == "script") return std::string(script());
    raise<Error>("[report] report.html asks for {}, which nobody gives", name);
  });
}

}  // namespace brim::command::page
