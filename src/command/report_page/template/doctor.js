// What the doctor found and tried before the training.
const ratioOf = (estimate) => (isNumber(estimate?.value) ? `${number(estimate.value)} (${number(estimate.low)} – ${number(estimate.high)})` : "–");

function beforeAndAfter(run, doctor) {
  const sides = ["before", "after"].filter((side) => isNumber(doctor[side]?.busy?.value));
  const shares = sides.map((side) => new Map([["compute", doctor[side].busy.value],
    ...arrayOf(doctor[side].causes).filter((cost) => isText(cost?.cause) && isNumber(cost.share?.value)).map((cost) => [cost.cause, cost.share.value])]));
  const causes = [...new Set(shares.flatMap((of) => [...of.keys()]))];
  const series = sides.map((side, i) => ({ label: say(`doctor_${side}`), values: causes.map((cause) => 100 * (shares[i].get(cause) ?? 0)) }));
  const title = say("doctor_shares_of", { run: run.name });
  const because = sides.map((side) => arrayOf(doctor[side].causes).flatMap((cost) => arrayOf(cost?.because).filter(isText)
    .map((reason) => [say(`doctor_${side}`), causeName(cost.cause), translated(reason)]))).flat();
  return card(title, barChart(title, causes.map(causeName), series, null, { min: 0, max: 100 }),
    details(table([say("cause"), ...series.map((one) => one.label)], causes.map((cause, i) => [causeName(cause), ...series.map((one) => `${number(one.values[i])} %`)]))),
    ...(because.length ? [table(["", say("cause"), say("because")], because)] : []));
}

function doctorCards(run) {
  const doctor = run.result.doctor;
  if (!isNumber(doctor?.before?.busy?.value)) return [];
  const rows = arrayOf(doctor.trials).filter((trial) => isText(trial?.what)).map((trial) =>
    [translated(trial.what), isText(trial.failure) ? trial.failure : ratioOf(trial.speedup), say(`verdict_${String(trial.verdict).replaceAll(" ", "_")}`)]);
  const made = card(say("doctor_trials_of", { run: run.name }), table([say("change"), say("times_as_fast"), say("verdict")], rows),
    element("p", { class: "about" }, `${say("doctor_in_all")}: ${ratioOf(doctor.speedup)}`));
  return [beforeAndAfter(run, doctor), made];
}

function showDoctor() {
  section(say("doctor"), model.runs.flatMap(doctorCards), say("doctor_about"));
}
