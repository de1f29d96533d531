// Charts, which are drawn again when the colours or the x axis change.
const palette = ["#2f6fdf", "#e0632b", "#1f9d6b", "#b44fc4", "#c99a06", "#12a3b4", "#d9437a", "#7a6ff0", "#7f8b2c", "#8c6d5a"];
// Each cause has a colour of its own, the same in all charts.
const causeColours = {
  "compute": "#1f9d6b", "input": "#e0632b", "dispatch": "#2f6fdf", "communication": "#b44fc4", "checkpoint": "#c99a06",
  "evaluation": "#12a3b4", "copy to device": "#d9437a", "user code": "#7a6ff0", "stolen": "#b3261e", "compile": "#8c6d5a",
  "throttle": "#ff5a36", "other": "#8a94a3", "peer": "#6b2fa0", "copy to host": "#f28ab0", "staging": "#a3195b",
  "host read": "#0b4f8a", "synchronize": "#7fc8ff", "full queue": "#b9c46a", "host compute": "#86d9b0", "allocator": "#f0c27b",
  "file read": "#5f7d2e", "file write": "#3d5a4f",
};
/// In the page's language.
const causeName = (cause) => (Object.hasOwn(texts.causes, cause) ? texts.causes[cause] : cause);
const charts = [];
let axis = "step";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const causeColour = (cause) => {
  if (Object.hasOwn(causeColours, cause)) return causeColours[cause];
  let sum = 0;
  for (const letter of cause) sum += letter.codePointAt(0);
  return palette[sum % palette.length];
};

/// A canvas in its frame; `configure` gives Chart.js's configuration, anew for every drawing.
function chart(label, configure, height) {
  const canvas = element("canvas", { role: "img", "aria-label": label });
  const frame = element("div", { class: "chart" }, canvas);
  if (height) frame.style.height = `${height}px`;
  charts.push({ canvas, configure, drawn: null });
  return frame;
}

function drawAll() {
  Chart.defaults.color = colour("--dim");
  Chart.defaults.borderColor = colour("--line");
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  for (const entry of charts) {
    if (entry.drawn) entry.drawn.destroy();
    entry.drawn = new Chart(entry.canvas, entry.configure());
  }
}

const still = { animation: false, responsive: true, maintainAspectRatio: false, normalized: true };
const legend = (shown) => ({ display: shown, position: "bottom", labels: { boxWidth: 12, boxHeight: 12 } });

function xScale(timeOnly) {
  const steps = axis === "step" && !timeOnly;
  return {
    type: "linear", title: { display: true, text: say(steps ? "step_axis" : "time_axis") }, grid: { display: false },
    ticks: { maxTicksLimit: innerWidth < 600 ? 5 : 9, maxRotation: 0, callback: (value) => number(value) },
  };
}
/// Chart.js shows what is constant between itself ± 1, whatever its size.
function aroundConstant(values) {
  const smallest = values.reduce((a, b) => Math.min(a, b), Infinity), largest = values.reduce((a, b) => Math.max(a, b), -Infinity);
  return smallest === largest && smallest !== 0 ? { suggestedMin: Math.min(0, 2 * smallest), suggestedMax: Math.max(0, 2 * smallest) } : {};
}
const yScale = (more = {}) => ({ ticks: { maxTicksLimit: 6, callback: (value) => number(value) }, ...more });

/// `lines`: [{label, points: [[seconds, step, value], ..]}].
function lineChart(title, lines, timeOnly, more = {}) {
  const x = (point) => (axis === "step" && !timeOnly ? point[1] : point[0]);
  const configure = () => ({
    type: "line",
    data: {
      datasets: lines.map((line, i) => ({
        label: line.label, data: line.points.map((point) => ({ x: x(point), y: point[2] })),
        borderColor: palette[i % palette.length], backgroundColor: palette[i % palette.length],
        borderDash: i >= palette.length ? [5, 3] : [], borderWidth: 1.6,
        pointRadius: line.points.length < 30 ? 2.5 : 0, pointHitRadius: 6,
      })),
    },
    options: {
      ...still, parsing: false, interaction: { mode: "nearest", axis: "x", intersect: false },
      scales: { x: xScale(timeOnly), y: yScale({ ...aroundConstant(lines.flatMap((line) => line.points.map((point) => point[2]))), ...more }) },
      plugins: {
        legend: legend(lines.length > 1),
        tooltip: { callbacks: {
          title: (items) => (items.length ? `${say(axis === "step" && !timeOnly ? "step" : "seconds")} ${number(items[0].parsed.x)}` : ""),
          label: (item) => `${item.dataset.label} ${number(item.parsed.y)}`,
        } },
      },
    },
  });
  const values = (line) => line.points.map((point) => point[2]);
  const rows = lines.filter((line) => line.points.length > 0).map((line) => {
    const all = values(line);
    const smallest = all.reduce((a, b) => Math.min(a, b)), largest = all.reduce((a, b) => Math.max(a, b));
    return [line.label, ...[all[0], smallest, largest, all[all.length - 1]].map(number)];
  });
  return card(title, chart(title, configure),
    details(table(["line", "first", "smallest", "largest", "last"].map((key) => say(key)), rows)));
}

/// Marks the worst stretches above the areas by their numbers.
const marks = (worst) => ({
  id: "marks",
  afterDatasetsDraw(drawn) {
    const { ctx, chartArea, scales } = drawn;
    ctx.save();
    ctx.font = `bold 11px ${Chart.defaults.font.family}`;
    ctx.textAlign = "center";
    let free = -Infinity; // where the last number ended
    const at = (w) => (axis === "step" ? [w.first_step, w.last_step] : [w.begin, w.end]).map((v) => scales.x.getPixelForValue(v));
    worst.map((w, i) => [at(w), i + 1]).sort((a, b) => a[0][0] - b[0][0]).forEach(([[left, right], name]) => {
      ctx.fillStyle = colour("--bad");
      ctx.fillRect(left, chartArea.top - 4, Math.max(right - left, 2), 4);
      const middle = (left + right) / 2;
      if (middle - 6 < free) return;
      ctx.fillText(name, middle, chartArea.top - 7);
      free = middle + 6;
    });
    ctx.restore();
  },
});

/// Shares of the causes over time, one above the other. The sums are made here: two points of a
/// stretch and its neighbour have the same x, which Chart.js cannot stack.
function areaChart(title, account) {
  const configure = () => {
    const datasets = account.causes.map((cause) => ({
      label: causeName(cause), data: [], fill: "-1", borderWidth: 0, pointRadius: 0,
      backgroundColor: causeColour(cause), borderColor: causeColour(cause),
    }));
    if (datasets.length > 0) datasets[0].fill = "origin";
    for (const [begin, firstStep, end, lastStep, seconds] of account.stretches) {
      const wall = seconds.reduce((a, b) => a + b, 0);
      let sum = 0;
      seconds.forEach((taken, i) => {
        const share = wall > 0 ? (100 * taken) / wall : 0;
        sum += share;
        for (const x of axis === "step" ? [firstStep, lastStep] : [begin, end]) datasets[i].data.push({ x, y: sum, share });
      });
    }
    return {
      type: "line", data: { datasets }, plugins: [marks(arrayOf(account.worst))],
      options: {
        ...still, parsing: false, layout: { padding: { top: 16 } }, interaction: { mode: "index", intersect: false },
        scales: { x: { ...xScale(false) }, y: yScale({ min: 0, max: 100 }) },
        plugins: {
          legend: legend(true),
          tooltip: { filter: (item) => item.raw.share >= 0.1, callbacks: {
            title: (items) => (items.length ? number(items[0].parsed.x) : ""),
            label: (item) => `${item.dataset.label} ${item.raw.share.toFixed(1)} %`,
          } },
        },
      },
    };
  };
  return chart(title, configure, 320);
}

/// `bars`: [[name, value]]; `series` for several: a value of each.
function barChart(title, names, series, colours, more = {}) {
  const configure = () => ({
    type: "bar",
    data: { labels: names, datasets: series.map((one, i) => ({
      label: one.label, data: one.values, backgroundColor: colours || palette[i % palette.length], borderRadius: 3, maxBarThickness: 22,
    })) },
    options: {
      ...still, indexAxis: "y",
      scales: { x: { beginAtZero: true, ticks: { maxTicksLimit: 6, callback: (value) => number(value) }, ...more },
                y: { grid: { display: false }, ticks: { autoSkip: names.length > 60, crossAlign: "far" } } },
      plugins: { legend: legend(series.length > 1), tooltip: { callbacks: { label: (item) => `${item.dataset.label} ${number(item.parsed.x)}` } } },
    },
  });
  const rows = Math.min(names.length, 60) * Math.max(22, 12 * series.length);
  return chart(title, configure, 70 + rows);
}
