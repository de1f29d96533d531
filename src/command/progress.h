// How a long command shows how far it is: a bar on a terminal, now and then a line otherwise.
#pragma once

#include <string>

#include <brim/train/trainer.h>

namespace brim::command {

class ProgressDisplay {
 public:
  /// Quiet: shows nothing (standard output carries JSON).
  explicit ProgressDisplay(bool quiet = false);
  ~ProgressDisplay() { finish(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  /// What is counted a second: "img" (the default), "samples".
  void count(const char* what) { counted_ = what; }
  void show(const train::Progress& progress);
  /// A line, where the epoch has a validation.
  void show_validation(const train::Progress& progress);
  /// A fraction of some other work: "decode 40 %". Lines appear at every tenth, at most one a
  /// second. A fraction of 0 begins another work.
  void show(const std::string& what, double fraction);
  /// Ends the bar's line, so that other text can follow.
  void finish();

 private:
  void draw(double fraction, const std::string& text);

  bool quiet_;
  const char* counted_ = "img";
  bool terminal_;
  bool open_ = false;  // a bar without a line end is on the terminal
  int last_tenth_ = -1;
  double last_draw_ = 0, last_line_ = 0;  // seconds
  double images_per_s_ = 0, loss_ = 0;
};

}  // namespace brim::command
