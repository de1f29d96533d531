// The samples that the network is most wrong about.
function showMostWrong() {
  const cards = model.runs.filter((run) => arrayOf(run.most_wrong).length > 0).map((run) => {
    const figures = run.most_wrong.map((wrong) => {
      const words = say("taken_with", { is: wrong.class, said: wrong.predicted, share: percent(wrong.probability) });
      const caption = element("figcaption", {}, `${words} (${say("sample")} ${number(wrong.sample)})`);
      return element("figure", {}, ...(isText(wrong.picture) ? [element("img", { src: `data:image/png;base64,${wrong.picture}`, alt: words })] : []), caption);
    });
    const made = card(say("most_wrong_of", { run: run.name }), element("div", { class: "pictures" }, ...figures));
    made.classList.add("wide");
    return made;
  });
  section(say("most_wrong"), cards, say("most_wrong_about"));
}
