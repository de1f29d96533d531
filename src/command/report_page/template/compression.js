// What `brim prune`, `quantize` and `shrink` took off a network, and what that cost and brought.
const metricsOf = (stages) => [...new Set(stages.flatMap((stage) => entriesOf(stage.metrics).map(([name]) => name)))];

const stageName = (stage) => say(`stage_${stage.what}`, { n: stage.number });
const milliseconds = (seconds) => (isNumber(seconds) ? number(1000 * seconds) : "–");
const kibibytes = (bytes) => (isNumber(bytes) ? `${number(bytes / 1024)} KiB` : "–");

function stagesChart(title, stages) {
  const series = metricsOf(stages).map((name) => ({ label: name, values: stages.map((stage) => stage.metrics?.[name] ?? null) }));
  return series.length > 0 && stages.length > 1 ? [barChart(title, stages.map(stageName), series)] : [];
}

function stagesTable(made) {
  const stages = arrayOf(made.stages), any = (key) => stages.some((stage) => isNumber(stage[key]));
  const names = metricsOf(stages);
  const compared = stages.some((stage) => isNumber(stage.difference?.mean));
  const points = (share) => (isNumber(share) ? `${share >= 0 ? "+" : "−"}${Math.abs(100 * share).toFixed(2)}` : "–");
  const columns = [
    [say("stage"), (stage) => stageName(stage) + (stage.is_chosen ? ` (${say("chosen")})` : "")],
    ...(any("loss") ? [[say("test_loss"), (stage) => number(stage.loss)]] : []),
    ...names.map((name) => [name, (stage) => number(stage.metrics?.[name])]),
    ...(compared ? [[say("accuracy_difference"), (stage) => (isNumber(stage.difference?.mean)
      ? `${points(stage.difference.mean)} (${points(stage.difference.low)} – ${points(stage.difference.high)})` : "")]] : []),
    ...(any("seconds") ? [[say("pass_ms"), (stage) => milliseconds(stage.seconds)]] : []),
    ...(any("bytes") ? [[say("file"), (stage) => kibibytes(stage.bytes)]] : []),
  ];
  return table(columns.map(([head]) => head), stages.map((stage) => columns.map(([, cell]) => cell(stage))));
}

/// What became of a layer, in words.
function fate(became) {
  const forms = [
    isText(became.shape) ? became.shape : "",
    isNumber(became.fewer_channels) ? say("fewer_channels", { share: percent(became.fewer_channels) }) : "",
    became.int8 === true ? "int8" : "",
    isNumber(became.zeros) ? say("zeros", { share: percent(became.zeros) }) : "",
    isNumber(became.error) ? say("output_error", { share: percent(became.error) }) : "",
  ].filter(isText).join(", ");
  const why = isText(became.why) ? translated(became.why) : "";
  return [forms, why].filter(isText).join(": ") || "f32";
}

function compressionCards(run) {
  const made = run.compression;
  if (!made) return [];
  const cards = [], title = (key) => say(key, { run: run.name, command: `brim ${made.command}` });
  const sizes = [
    made.points > arrayOf(made.stages).length ? say("points_shown", { n: number(made.stages.length), all: number(made.points) }) : "",
    isNumber(made.parameters?.pruned) ? say("parameters_left", { n: number(made.parameters.pruned), all: number(made.parameters.dense) }) : "",
    isNumber(made.bytes) ? `${say("file")}: ${kibibytes(made.bytes)}` : "",
  ].filter(isText);
  if (arrayOf(made.stages).length > 0) {
    cards.push(card(title("stages_of"), ...stagesChart(title("stages_of"), arrayOf(made.stages)), stagesTable(made), ...sizes.map((line) => element("p", { class: "about" }, line))));
  }
  if (arrayOf(made.times).length > 0) {
    cards.push(card(title("pass_times_of"), table([say("batch"), say("doctor_before"), say("doctor_after"), say("speedup")],
      made.times.map((time) => [number(time.batch), `${milliseconds(time.before)} ms`, `${milliseconds(time.after)} ms`, number(time.before / time.after)]))));
  }
  if (arrayOf(made.layers).length > 0) {
    const rows = made.layers.map((layer) => [layer.name, layer.shape, fate(layer.became)]);
    const layers = card(title("layers_of"), table([say("layer"), say("shape"), say("became")], rows));
    if (made.all_layers > rows.length) layers.append(element("p", { class: "about" }, say("layers_shown", { n: number(rows.length), all: number(made.all_layers) })));
    if (rows.some(([, , what]) => what.length > 40)) layers.classList.add("wide");
    cards.push(layers);
  }
  return cards;
}

function showCompression() {
  section(say("compression"), model.runs.flatMap(compressionCards), say("compression_about"));
}
