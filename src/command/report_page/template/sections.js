// The sections of the page, from the top to the bottom.
const several = model.runs.length > 1;
const named = (run, label) => [several ? run.name : "", label].filter(isText).join(": ");

/// The lines of a chart, of all runs; `name` gives what a line is called.
function linesOf(id, name = (label) => label) {
  return model.runs.flatMap((run) => run.lines.filter((line) => line.chart === id)
    .map((line) => ({ label: named(run, name(line.label)) || say(id), points: line.points })));
}

function lineCards(charts, timeOnly) {
  return charts.map(({ id, title, name, more }) => [say(title || id), linesOf(id, name), more])
    .filter(([, lines]) => lines.length > 0)
    .map(([title, lines, more]) => lineChart(title, lines, timeOnly, more));
}

function stateOf(run) {
  // The result may be of an earlier process than the history's last line.
  if (isText(run.last.state) && run.last.state !== "finished") return `state_${run.last.state}`;
  if (run.result.stopped_early === true) return "state_stopped_early";
  if (run.result.stopped === true) return "state_stopped";
  if (isNumber(run.result.seconds)) return "state_finished";
  return isText(run.last.state) ? `state_${run.last.state}` : "–";
}

function factsOf(run) {
  const { result, last } = run;
  const either = (key) => result[key] ?? last[key];
  const started = isNumber(last.started) ? new Date(1000 * last.started) : null;
  const devices = result.device || run.accounts.map((account) => account.device).join(", ");
  const facts = [
    ["recipe", either("recipe")], ["data", either("data")], ["task", either("task")], ["devices", devices],
    ["precision", either("precision")], ["batch", either("batch")], ["steps", result.total_steps ?? last.step], ["epochs", either("epochs")],
    ["state", say(stateOf(run))],
    ["started", started && !Number.isNaN(started.getTime()) ? started.toLocaleString(language) : null],
    ["duration", isNumber(result.seconds) ? duration(result.seconds) : null],
    ["images", result.total_images ?? (run.images || null)], ["rate", either("images_per_s")], ["median_step", result.us_per_step],
    ["final_loss", result.final_loss ?? last.loss], ["accuracy", isNumber(result.accuracy) ? percent(result.accuracy) : null],
    ["heat", result.heat?.pauses > 0 ? say("heat_pauses", { n: number(result.heat.pauses), time: duration(result.heat.seconds) }) : null],
    ["peak_memory", isNumber(result.peak_memory) ? bytes(result.peak_memory) : null], ["seed", isNumber(result.seed) ? String(result.seed) : null],
    ["threads", result.threads], ["host", last.hostname], ["sessions", run.sessions > 1 ? run.sessions : null], ["folder", run.folder],
  ];
  return element("dl", { class: "facts" }, ...facts.filter(([, value]) => isText(value) || isNumber(value)).map(([key, value]) =>
    element("div", {}, element("dt", {}, say(key)), element("dd", {}, isNumber(value) ? number(value) : value))));
}

function showHead() {
  const names = model.runs.map((run) => run.name).join(", ");
  document.getElementById("report").append(element("h1", {}, `${say("title")}: ${names}`));
  const cards = model.runs.map((run) => {
    const made = card(run.name, factsOf(run));
    const versions = entriesOf(run.result.versions).filter(([, version]) => isText(version));
    if (versions.length > 0) {
      made.append(element("details", {}, element("summary", {}, say("versions")), table([say("part"), say("value")], versions)));
    }
    if (!several) made.classList.add("wide");
    return made;
  });
  document.getElementById("report").append(element("div", { class: "grid" }, ...cards));
}

function notesOf(run) {
  const notes = [];
  const count = (key) => run.result[key] ?? run.last[key];
  for (const key of ["skipped", "test_skipped", "checkpoint_failures"]) {
    if (isNumber(count(key)) && count(key) > 0) notes.push(say(key, { n: number(count(key)) }));
  }
  for (const [file, counts] of [["history.jsonl", run.history], ["monitor.jsonl", run.monitor]]) {
    if (counts.bad > 0) notes.push(say("bad_lines", { file, n: number(counts.bad) }));
    if (counts.cut) notes.push(say("cut_line", { file }));
    if (counts.left_out > 0) notes.push(say("left_out", { file, n: number(counts.left_out) }));
  }
  for (const [device, entries] of entriesOf(run.result.reconciliation)) {
    for (const entry of arrayOf(entries)) {
      if (!isNumber(entry?.residual) || Math.abs(entry.residual) <= 0.005) continue;
      notes.push(say("differs", { device, what: translated(String(entry.what)), one: number(entry.one), other: number(entry.other), share: signed(entry.residual) }) +
        (isText(entry.reason) ? `: ${translated(entry.reason)}` : ""));
    }
  }
  if (run.bad_result) notes.push(say("bad_result"));
  else if (run.old_result) notes.push(say("old_result"));
  else if (Object.keys(run.result).length === 0) notes.push(say("no_result"));
  if (run.history.good === 0 && !run.compression) notes.push(say("no_history"));
  return notes;
}

function showNotes() {
  const cards = model.runs.map((run) => [run, notesOf(run)]).filter(([, notes]) => notes.length > 0).map(([run, notes]) => {
    const made = card(run.name, element("ul", {}, ...notes.map((note) => element("li", {}, note))));
    made.classList.add("notes");
    return made;
  });
  section(say("went_wrong"), cards);
}

function showComparison() {
  if (model.comparison.length === 0) return;
  const shown = (row, value) => {
    if (!isNumber(value)) return "–";
    if (row.key === "accuracy") return percent(value);
    return row.key === "duration" || row.key === "cause" ? duration(value) : number(value);
  };
  const rows = model.comparison.map((row) => [
    row.key === "cause" ? causeName(row.cause) : say(row.key),
    ...row.values.map((value, i) => shown(row, value) + (i > 0 && isNumber(row.differences[i]) ? ` (${signed(row.differences[i])})` : "")),
    percent(row.spread),
  ]);
  const made = card(say("comparison"), table([say("quantity"), ...model.runs.map((run) => run.name), say("spread")], rows));
  made.classList.add("wide");
  section(say("comparison"), [made], say("comparison_about"));
}

function showProgress() {
  section(say("progress"), lineCards([
    { id: "loss", name: (label) => say(label) }, { id: "rate", title: "rate_chart", more: { beginAtZero: true } },
    { id: "learning_rate" }, { id: "metrics", title: "metrics_chart" },
  ]));
}

/// Stretches in the trace: Perfetto shows the one whose link was followed once the file is opened there.
function traceLinks(run, stretches) {
  const nanoseconds = (seconds) => Math.round(1e9 * seconds);
  const link = ([name, [begin, end]]) => element("a", { rel: "noreferrer", target: "_blank",
    href: `https://ui.perfetto.dev/#!/?visStart=${nanoseconds(begin)}&visEnd=${nanoseconds(end)}` }, `${name}. ${begin.toFixed(3)} – ${end.toFixed(3)} s`);
  return element("p", { class: "about" }, `${say("in_trace", { file: run.trace })} `, ...stretches.flatMap((one) => [link(one), " "]));
}

function accountCards(run, account) {
  const cards = [];
  const title = (key) => say(key, { run: run.name, device: account.device });
  if (arrayOf(account.stretches).length > 0) {
    const made = card(title("account_of"), areaChart(title("account_of"), account));
    made.classList.add("wide");
    cards.push(made);
  }
  const wall = account.seconds.reduce((a, b) => a + b, 0);
  const rows = account.causes.map((cause, i) => [causeName(cause), `${number(account.seconds[i])} s`, percent(account.seconds[i] / wall)]);
  cards.push(card(title("total_of"),
    barChart(title("total_of"), account.causes.map(causeName), [{ label: "s", values: account.seconds }], account.causes.map(causeColour),
      { title: { display: true, text: "s" } }),
    details(table([say("cause"), say("time"), say("share")], rows))));
  if (arrayOf(account.worst).length > 0) {
    const worst = account.worst.map((w, i) => [`${i + 1}. ${causeName(w.cause)}`, percent(w.share), `${number(w.seconds)} s`,
      `${duration(w.begin)} – ${duration(w.end)}`, `${number(w.first_step)} – ${number(w.last_step)}`]);
    const made = card(title("worst_of"), table([say("cause"), say("share"), "s", say("time"), say("steps")], worst));
    const traced = account.worst.map((w, i) => [i + 1, arrayOf(w.in_trace)]).filter(([, at]) => at.length === 2);
    if (isText(run.trace) && traced.length > 0) made.append(traceLinks(run, traced));
    cards.push(made);
  }
  return cards;
}

function showAccounts() {
  section(say("account"), model.runs.flatMap((run) => run.accounts.flatMap((account) => accountCards(run, account))), say("account_about"));
}

function showMachine() {
  section(say("machine"), lineCards([
    { id: "load", more: { min: 0, max: 100 } }, { id: "cores", more: { beginAtZero: true } }, { id: "sensor_memory", more: { beginAtZero: true } },
    { id: "power", more: { beginAtZero: true } }, { id: "temperature" }, { id: "clock" },
  ], true));
}

function showMemory() {
  const cards = lineCards([{ id: "memory", more: { beginAtZero: true } }, { id: "energy", more: { beginAtZero: true } }]);
  const rows = model.runs.flatMap((run) => entriesOf(run.energy).map(([device, joule]) =>
    [named(run, device), number(joule), run.images > 0 ? number(joule / run.images) : "–"]));
  if (rows.length > 0) cards.push(card(say("energy_table"), table([say("device"), say("joule"), say("joule_per_image")], rows)));
  section(say("memory_section"), cards);
}

function showResults() {
  const cards = [];
  const metrics = model.runs.flatMap((run) => [...entriesOf(run.result.metrics), [say("test_loss"), run.result.test_loss]]
    .filter(([, value]) => isNumber(value)).map(([name, value]) => [named(run, name), number(value)]));
  if (metrics.length > 0) cards.push(card(say("results"), table([say("metric"), say("value")], metrics)));
  const names = [...new Set(model.runs.flatMap((run) => entriesOf(run.result.per_class).map(([name]) => name)))];
  if (names.length > 0) {
    const series = model.runs.map((run) => {
      const of = new Map(entriesOf(run.result.per_class));
      return { label: run.name, values: names.map((name) => (isNumber(of.get(name)) ? 100 * of.get(name) : null)) };
    });
    cards.push(card(say("per_class"), barChart(say("per_class"), names, series, null, { min: 0, max: 100 }),
      details(table([say("class"), ...model.runs.map((run) => run.name)], names.map((name, i) => [name, ...series.map((one) => number(one.values[i]))])))));
  }
  section(say("results"), cards);
}

function showLoader() {
  section(say("loader"), model.runs.filter((run) => entriesOf(run.result.loader).length > 0).map((run) => {
    const loader = run.result.loader;
    const parts = entriesOf(loader.worker_seconds?.sum).filter(([, value]) => isNumber(value) && value > 0);
    const decisions = arrayOf(loader.decisions).filter(isText);
    const made = card(run.name, table([say("part"), say("value")], [[say("workers"), number(loader.workers)], [say("slots"), number(loader.slots)]]),
      element("p", { class: "about" }, `${say("decisions")}: ${decisions.length > 0 ? "" : say("none")}`),
      element("ul", {}, ...decisions.map((line) => element("li", {}, translated(line)))));
    if (parts.length > 0) made.append(table([say("part"), say("sum_of_workers")], parts.map(([name, value]) => [translated(name), number(value)])));
    return made;
  }));
}

/// Steps or seconds, for the charts that have both.
function showAxis() {
  if (charts.length === 0 || model.runs.every((run) => run.history.good === 0)) return;
  const buttons = ["step", "seconds"].map((choice) => {
    const button = element("button", { type: "button", "aria-pressed": choice === axis }, say(choice));
    button.addEventListener("click", () => {
      axis = choice;
      for (const other of buttons) other.setAttribute("aria-pressed", other === button);
      drawAll();
    });
    return button;
  });
  document.querySelector("h2")?.before(element("div", { class: "axis" }, `${say("x_axis")} `, ...buttons));
}

showHead();
showNotes();
showComparison();
showProgress();
showAccounts();
showDoctor();
showOperations();
showMachine();
showMemory();
showResults();
showCompression();
showConfusion();
showMostWrong();
showLoader();
showAxis();
drawAll();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
// On paper all is light, and as wide as the paper; tables are open.
addEventListener("beforeprint", () => {
  document.documentElement.dataset.theme = "print";
  for (const one of document.querySelectorAll("details")) one.open = true;
  drawAll();
});
addEventListener("afterprint", () => {
  delete document.documentElement.dataset.theme;
  drawAll();
});
