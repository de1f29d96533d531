// `brim report`: one page about trainings, made of the files in their folders.
#include <memory>
#include <vector>

#include "command/command.h"
#include "command/report.h"
#include "command/report_page/html.h"
#include "command/report_page/model.h"
#include "command/report_page/run.h"
#include "command/say.h"
#include "io/atomic_file.h"

namespace brim::command::page {
namespace {

struct ReportArguments {
  std::vector<std::string> folders;
  std::string out = "report.html", language = "en";
};

int write_report(const ReportArguments& arguments) {
  check_output_path("out", arguments.out);
  std::vector<NamedPath> inputs;
  for (const std::string& folder : arguments.folders)
    for (const char* name : {"history.jsonl", "monitor.jsonl", "result.json"})
      inputs.push_back({"a file of the run", folder + "/" + name});
  check_outputs({{"--out", arguments.out}}, inputs);
  std::vector<Run> runs;
  for (const std::string& folder : arguments.folders) runs.push_back(read_run(folder));
  const std::string html = html_page(model_of(runs), arguments.language);
  io::write_file_atomically(arguments.out, html);
  say(stdout, "{}: {} run{}, {:.0f} kB; open it in a browser\n", arguments.out, runs.size(),
      runs.size() == 1 ? "" : "s", static_cast<double>(html.size()) / 1000);
  return 0;
}

const Register report_command(
    {"report", "write a page with charts about one or several trainings",
     [](Arguments args) -> std::function<int()> {
       auto arguments = std::make_shared<ReportArguments>();
       args.add("runs", arguments->folders, "folders of brim train --out").required();
       args.add("-o,--out", arguments->out, "the page").show_default().file();
       args.add("--language", arguments->language, "of the page's texts")
           .one_of({"en", "ko"})
           .show_default();
       return [arguments] { return write_report(*arguments); };
     }});

}  // namespace
}  // namespace brim::command::page
