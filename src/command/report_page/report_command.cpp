// `brim report`: a page or a table about trainings, made of the files in their folders.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "command/command.h"
#include "command/report.h"
#include "command/report_page/csv.h"
#include "command/report_page/html.h"
#include "command/report_page/model.h"
#include "command/report_page/run.h"
#include "command/say.h"
#include "io/atomic_file.h"
#include "io/paths.h"
#include "train/run_folder.h"

namespace brim::command::page {
namespace {

struct ReportArguments {
  std::vector<std::string> folders;
  std::string out, csv, language = "en";  // neither file: report.html
};

void write_page(const ReportArguments& arguments, const std::string& out) {
  std::vector<Run> runs;
  for (const std::string& folder : arguments.folders) runs.push_back(read_run(folder));
  const std::string html = html_page(model_of(runs), arguments.language);
  io::write_file_atomically(out, html);
  say(stdout, "{}: {} run{}, {:.0f} kB; open it in a browser\n", out, runs.size(),
      runs.size() == 1 ? "" : "s", static_cast<double>(html.size()) / 1000);
}

void write_csv(const ReportArguments& arguments) {
  const std::string csv = csv_of(arguments.folders);
  if (is_stdout(arguments.csv)) {
    std::fwrite(csv.data(), 1, csv.size(), stdout);  // its texts are printable
    return;
  }
  io::write_file_atomically(arguments.csv, csv);
  say(stdout, "{}: {} rows\n", arguments.csv, std::ranges::count(csv, '\n') - 1);
}

/// Whether there is such a file in the folder already, and it is no earlier report.
bool replaces_within(const std::string& folder, const std::string& path) {
  const std::filesystem::path real = io::real_path(path);
  std::error_code ignored;
  return io::lies_in(real, io::real_path(folder)) && std::filesystem::exists(real, ignored) &&
         real.extension() != ".html" && real.extension() != ".csv";
}

/// Throws UsageError if an output would replace what a run keeps, its weights as well.
void check_files_of_runs(const std::vector<NamedPath>& outputs,
                         const std::vector<std::string>& folders) {
  check_outputs(outputs, {});
  for (const NamedPath& output : outputs)
    for (const std::string& folder : folders)
      if (!output.path.empty() && !is_stdout(output.path) &&
          (train::belongs_to_run(folder, output.path) || replaces_within(folder, output.path)))
        throw UsageError(
            fmt::format("{} {} would replace a file of the run; give it a file of its own",
                        output.name, output.path));
}

int write_report(const ReportArguments& arguments) {
  const bool has_page = !arguments.out.empty() || arguments.csv.empty();
  const std::string out = arguments.out.empty() && has_page ? "report.html" : arguments.out;
  check_output_path("out", out);
  if (!is_stdout(arguments.csv)) check_output_path("csv", arguments.csv);
  check_files_of_runs({{"--out", out}, {"--csv", arguments.csv}}, arguments.folders);
  if (has_page) write_page(arguments, out);
  if (!arguments.csv.empty()) write_csv(arguments);
  return 0;
}

const Register report_command(
    {"report", "write a page with charts, or a table, about one or several trainings",
     [](Arguments args) -> std::function<int()> {
       auto arguments = std::make_shared<ReportArguments>();
       args.add("runs", arguments->folders,
                "folders of brim train --out, or of prune, quantize and shrink")
           .required();
       args.add("-o,--out", arguments->out, "the page (default: report.html)").file();
       args.add("--csv", arguments->csv,
                "the reports as a table, or - for standard output; without --out instead of the "
                "page")
           .file();
       args.add("--language", arguments->language, "of the page's texts")
           .one_of({"en", "ko"})
           .show_default();
       return [arguments] { return write_report(*arguments); };
     }});

}  // namespace
}  // namespace brim::command::page
