// Kernels under their roof, and the memory of the plan.
const rowsOf = (run) => arrayOf(run.ops?.rows);
const intensity = (op) => op.operations / op.bytes;
const rateOf = (op) => (op.operations * op.calls) / op.seconds;

/// What the roof allows at an intensity, by the bandwidth of memory or of caches.
const roofAt = (roof, bandwidth, x) => Math.min(roof.operations_per_s, bandwidth * x);

function roofline(run) {
  const points = rowsOf(run).filter((op) => op.operations > 0 && op.bytes > 0 && op.seconds > 0);
  if (points.length === 0) return null;
  const roof = run.ops.roof, most = Math.max(...points.map((op) => op.seconds));
  const xs = points.map(intensity);
  const from = Math.min(...xs) / 2, to = Math.max(...xs, roof ? (2 * roof.operations_per_s) / roof.bytes_per_s : 0) * 2;
  const line = (label, bandwidth, dash) => ({
    type: "line", label, borderColor: colour("--dim"), borderDash: dash, borderWidth: 1.5, pointRadius: 0, pointHitRadius: 0,
    data: [from, roof.operations_per_s / bandwidth, to].filter((x) => x >= from && x <= to)
      .map((x) => ({ x, y: roofAt(roof, bandwidth, x) / 1e9 })),
  });
  const configure = () => ({
    type: "scatter",
    data: { datasets: [
      { label: say("kernels"), backgroundColor: `${palette[0]}b0`, borderColor: palette[0],
        data: points.map((op) => ({ x: intensity(op), y: rateOf(op) / 1e9, op })),
        pointRadius: points.map((op) => 3 + 12 * Math.sqrt(op.seconds / most)) },
      ...(isNumber(roof?.bytes_per_s) ? [line(say("roof_memory"), roof.bytes_per_s, [])] : []),
      ...(roof?.cache_bytes_per_s > 0 ? [line(say("roof_cache"), roof.cache_bytes_per_s, [5, 4])] : []),
    ] },
    options: {
      ...still, parsing: false,
      scales: {
        x: { type: "logarithmic", title: { display: true, text: say("intensity") }, ticks: { maxTicksLimit: 7, callback: (value) => number(value) } },
        y: { type: "logarithmic", title: { display: true, text: "GFLOP/s" }, ticks: { maxTicksLimit: 7, callback: (value) => number(value) } },
      },
      plugins: { legend: legend(true), tooltip: { filter: (item) => item.datasetIndex === 0, callbacks: {
        label: ({ raw }) => `${raw.op.op} ${raw.op.shapes}: ${number(raw.y)} GFLOP/s, ${number(raw.x)} FLOP/B`,
      } } },
    },
  });
  const title = say("roofline_of", { run: run.name, device: run.ops.device });
  const made = card(title, chart(title, configure, 340));
  made.classList.add("wide");
  return made;
}

function dearest(run) {
  const rows = rowsOf(run);
  const all = run.ops.seconds;
  const rate = (value) => (isNumber(value) && Number.isFinite(value) ? number(value / 1e9) : "–");
  const made = card(say("dearest_of", { run: run.name, device: run.ops.device }),
    table(["kernel", "share", "microseconds", "gflops", "gbytes", "of_roof", "shapes"].map((key) => say(key)), rows.slice(0, 25).map((op) => [
      op.op, percent(op.seconds / all), number((1e6 * op.seconds) / op.calls), rate(rateOf(op)), rate((op.bytes * op.calls) / op.seconds),
      percent(op.share_of_roof), op.shapes || "–",
    ])));
  made.classList.add("wide");
  return made;
}

/// Each temporary as a rectangle: launches from left to right, bytes of the arena upwards.
const arenaRectangles = (plan) => ({
  id: "arena",
  beforeDatasetsDraw({ ctx, scales }) {
    ctx.save();
    plan.temporaries.forEach(([, , offset, size, first, last], i) => {
      const left = scales.x.getPixelForValue(first), right = scales.x.getPixelForValue(last + 1);
      const top = scales.y.getPixelForValue((offset + size) / 2 ** 20), bottom = scales.y.getPixelForValue(offset / 2 ** 20);
      ctx.fillStyle = `${palette[i % palette.length]}99`;
      ctx.fillRect(left, top, Math.max(right - left - 0.5, 0.5), Math.max(bottom - top - 0.5, 0.5));
    });
    ctx.restore();
  },
});

function memoryOfPlan(run) {
  const { plan } = run;
  if (arrayOf(plan?.temporaries).length === 0) return null;
  const title = say("plan_memory_of", { run: run.name });
  const configure = () => ({
    type: "line", plugins: [arenaRectangles(plan)],
    data: { datasets: [{ label: say("live"), stepped: true, borderColor: colour("--text"), borderWidth: 1.6, pointRadius: 0, pointHitRadius: 8,
      data: [...plan.live, plan.live[plan.live.length - 1]].map((size, i) => ({ x: i, y: size / 2 ** 20 })) }] },
    options: {
      ...still, parsing: false, interaction: { mode: "nearest", axis: "x", intersect: false },
      scales: {
        x: { type: "linear", min: 0, max: plan.launches.length, title: { display: true, text: say("launch") }, grid: { display: false }, ticks: { precision: 0 } },
        y: yScale({ min: 0, max: plan.arena_bytes / 2 ** 20, title: { display: true, text: "MiB" } }),
      },
      plugins: { legend: legend(true), tooltip: { callbacks: {
        title: (items) => (items.length ? String(plan.launches[items[0].dataIndex] ?? "") : ""),
        label: (item) => `${item.dataset.label} ${number(item.parsed.y)} MiB`,
      } } },
    },
  });
  const largest = [...plan.temporaries].sort((a, b) => b[3] - a[3]).slice(0, 12).map(([shape, dtype, , size, first, last]) =>
    [`${shape} ${dtype}`, number(size / 2 ** 20), `${first} ${plan.launches[first] ?? ""}`, `${last} ${plan.launches[last] ?? ""}`]);
  const made = card(title, chart(title, configure, 320), details(table(["tensor", "MiB", "made_by", "last_used_by"].map((key) => say(key)), largest)));
  made.classList.add("wide");
  return made;
}

function showOperations() {
  const cards = model.runs.flatMap((run) => [
    ...(rowsOf(run).length > 0 ? [roofline(run), dearest(run)] : []), memoryOfPlan(run),
  ]).filter((made) => made);
  section(say("operations"), cards, say("operations_about"));
}
