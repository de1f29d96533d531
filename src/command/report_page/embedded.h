// The files of template/, and Chart.js, which cmake/EmbedReport.cmake puts into the command as
// text: it needs none of them where it runs.
#pragma once

#include <string_view>

namespace brim::command::page {

std::string_view html_template();  ///< report.html
std::string_view style();          ///< report.css
std::string_view script();         ///< tools.js, charts.js, sections.js
std::string_view texts();          ///< texts.json: by language
std::string_view chart_js();       ///< "" where the build found none

}  // namespace brim::command::page
