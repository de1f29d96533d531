# cmake -DOUTPUT=file.cpp -DTEMPLATE=folder -DCHART_JS=file-or-nothing -P EmbedReport.cmake: a source that holds what pages of
# `brim report` are made of as text, for src/command/report_page/embedded.h.
set(functions "")
# add_text(FUNCTION FILE...): its files one after the other.
function(add_text name)
  set(text "")
  foreach(file IN LISTS ARGN)
    file(READ "${file}" part)
    string(APPEND text "${part}")
  endforeach()
  string(FIND "${text}" ")brim\"" delimiter)
  if(NOT delimiter EQUAL -1)
    message(FATAL_ERROR "${ARGN} holds )brim\", which ends the literal that it is put into")
  endif()
  set(functions "${functions}
std::string_view ${name}() {
  static constexpr char kText[] = R\"brim(${text})brim\";
  return {kText, sizeof(kText) - 1};
}
" PARENT_SCOPE)
endfunction()
add_text(html_template ${TEMPLATE}/report.html)
add_text(style ${TEMPLATE}/report.css)
add_text(script ${TEMPLATE}/tools.js ${TEMPLATE}/charts.js ${TEMPLATE}/operations.js ${TEMPLATE}/confusion.js ${TEMPLATE}/most_wrong.js ${TEMPLATE}/doctor.js ${TEMPLATE}/compression.js ${TEMPLATE}/sections.js)
add_text(texts ${TEMPLATE}/texts.json)
add_text(chart_js ${CHART_JS})
file(WRITE "${OUTPUT}" "// Made by cmake/EmbedReport.cmake.
#include \"command/report_page/embedded.h\"

namespace brim::command::page {
${functions}
}  // namespace brim::command::page
")
