"use strict";
// What the page is made of: texts, numbers, elements. Text is only ever set as textContent, for
// names come from files.
const texts = JSON.parse(document.getElementById("texts").textContent);
const model = JSON.parse(document.getElementById("data").textContent);
const language = document.documentElement.lang;

function say(key, values = {}) {
  let text = Object.hasOwn(texts, key) ? texts[key] : key;
  for (const [name, value] of Object.entries(values)) text = text.replace(`{${name}}`, () => value);
  return text;
}

/// A sentence of the command in the page's language, or as it came. The command writes English with values in it: {} stands for one word,
/// {*} for parts behind commas, each of which is translated by itself, {text} for what stays as it is, and [s] for a plural or none.
function translated(sentence) {
  if (sentence.length > 500) return sentence; // none of the command's
  for (const [english, translation] of Object.entries(texts.sentences)) {
    const pattern = english.replace(/[.*+?^$()|[\]\\]/g, "\\$&").replaceAll("\\[s\\]", "s?").replaceAll("{\\*}", "(.+)").replaceAll("{text}", "(.+)").replaceAll("{}", "(\\S+)");
    const found = new RegExp(`^${pattern}$`).exec(sentence);
    if (!found) continue;
    const values = found.slice(1);
    return translation.replace(/\{(?:\*|text)?\}/g, (mark) => (mark !== "{*}" ? values.shift() : values.shift().split(", ").map(translated).join(", ")));
  }
  return sentence;
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const isText = (value) => typeof value === "string" && value !== "";
const entriesOf = (value) =>
  value && typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : [];
const arrayOf = (value) => (Array.isArray(value) ? value : []);

/// Four digits, in the reader's way of writing.
function number(value) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2);
  const digits = size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 };
  return new Intl.NumberFormat(language, digits).format(value);
}
const percent = (share) => (isNumber(share) ? `${(100 * share).toFixed(1)} %` : "–");
const signed = (share) => (share >= 0 ? "+" : "−") + percent(Math.abs(share));

function duration(seconds) {
  if (!isNumber(seconds)) return "–";
  if (seconds < 100) return `${number(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function bytes(count) {
  return isNumber(count) ? `${number(count / 2 ** 20)} MiB` : "–";
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/// Rows of texts, below a head; the first column names the row.
function table(head, rows) {
  const cells = (tag, texts) => element("tr", {}, ...texts.map((text) => element(tag, {}, String(text))));
  return element("div", { class: "scroll", tabindex: 0 },
    element("table", {}, element("thead", {}, cells("th", head)),
      element("tbody", {}, ...rows.map((row) => cells("td", row)))));
}

function details(content) {
  return element("details", {}, element("summary", {}, say("table")), content);
}

function card(title, ...content) {
  return element("section", { class: "card" }, element("h3", {}, title), ...content);
}

/// A section with its cards, unless there are none.
function section(title, cards, about) {
  if (cards.length === 0) return;
  const head = [element("h2", {}, title)];
  if (about) head.push(element("p", { class: "about" }, about));
  document.getElementById("report").append(...head, element("div", { class: "grid" }, ...cards));
}
