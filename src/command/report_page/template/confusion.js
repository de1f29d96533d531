// Which class was taken for which.

/// The matrix of a run, where it is one: a row of numbers for each class.
function matrixOf(run) {
  const rows = arrayOf(run.result.confusion), names = arrayOf(run.result.classes).map(String);
  const square = rows.length > 1 && rows.length === names.length &&
    rows.every((row) => Array.isArray(row) && row.length === rows.length && row.every((count) => isNumber(count) && count >= 0));
  return square ? { rows, names } : null;
}

function heatMap({ rows, names }) {
  const cells = rows.map((row, is) => {
    const all = row.reduce((a, b) => a + b, 0);
    return element("tr", {}, element("th", { scope: "row" }, names[is]), ...row.map((count, said) => {
      const share = all > 0 ? count / all : 0;
      const cell = element("td", { title: say("taken_for", { is: names[is], said: names[said], n: number(count), all: number(all) }) },
        rows.length <= 20 ? number(count) : "");
      cell.style.backgroundColor = `color-mix(in srgb, var(${is === said ? "--good" : "--bad"}) ${Math.round(100 * share)}%, transparent)`;
      if (share > 0.6) cell.style.color = "var(--card)";
      return cell;
    }));
  });
  const head = element("tr", {}, element("th", {}), ...names.map((name) => element("th", { scope: "col" }, element("span", {}, name))));
  return element("div", { class: "scroll", tabindex: 0 }, element("table", { class: "confusion" }, element("thead", {}, head), element("tbody", {}, ...cells)));
}

function mostConfused({ rows, names }) {
  const pairs = rows.flatMap((row, is) => row.map((count, said) => [names[is], names[said], count, is === said]));
  const worst = pairs.filter(([, , count, right]) => !right && count > 0).sort((a, b) => b[2] - a[2]).slice(0, 10);
  return table([say("is_class"), say("said_class"), say("samples")], worst.map(([is, said, count]) => [is, said, number(count)]));
}

function showConfusion() {
  const cards = model.runs.map((run) => [run, matrixOf(run)]).filter(([, matrix]) => matrix).flatMap(([run, matrix]) => {
    const made = card(say("confusion_of", { run: run.name }), heatMap(matrix));
    if (matrix.names.length > 10) made.classList.add("wide");
    return [made, card(say("confused_of", { run: run.name }), mostConfused(matrix))];
  });
  section(say("confusion"), cards, say("confusion_about"));
}
