// Asks for the status each second and changes what is different. Rows and cells stay, so that a selection, a scroll
// position and what a screen reader has read stay too.

import { cards, tables, troubles, uptime } from "/page/tables.js";
import { number, time } from "/page/words.js";

const PERIOD = 1000;
const PATIENCE = 5000;
const byId = id => document.getElementById(id);

function element(name, into, attributes = {}) {
  const made = into.namespaceURI === "http://www.w3.org/2000/svg" || name === "svg"
    ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  into.append(made);
  return made;
}

function say(node, text, mood = "") {
  if (node.textContent !== text) node.textContent = text;
  for (const one of ["good", "warn", "bad"]) node.classList.toggle(one, one === mood);
}

// Keeps one child for each key, in this order; makes what is new and removes what is gone.
function keyed(into, keys, make) {
  const old = new Map([...into.children].map(child => [child.dataset.key, child]));
  keys.forEach((key, place) => {
    let child = old.get(key);
    if (!child) {
      child = make(key);
      child.dataset.key = key;
    }
    old.delete(key);
    if (into.children[place] !== child) into.insertBefore(child, into.children[place] || null);
  });
  for (const child of old.values()) child.remove();
  return [...into.children];
}

// Tables -------------------------------------------------------------------------------------------------------------

function build(table) {
  const section = element("section", byId("main"), { id: table.id, hidden: "" });
  element("h2", section).textContent = table.title;
  if (table.note) element("p", section, { class: "soft" });
  const made = element("table", section, { role: "table", "aria-label": table.title });
  const head = element("tr", element("thead", made, { role: "rowgroup" }), { role: "row" });
  for (const { label, title, kind } of table.columns) {
    const th = element("th", head, { role: "columnheader", scope: "col" });
    th.textContent = label;
    if (title) th.title = title;
    if (kind) th.className = kind;
  }
  element("tbody", made, { role: "rowgroup" });
}

function row(columns) {
  const tr = document.createElement("tr");
  tr.setAttribute("role", "row");
  columns.forEach(({ label, title, kind }, place) => {
    const cell = element(place ? "td" : "th", tr, { role: place ? "cell" : "rowheader" });
    cell.dataset.label = label;
    if (title) cell.title = title;
    if (kind) cell.className = kind;
  });
  return tr;
}

function fill(table, status) {
  const rows = table.rows(status), section = byId(table.id);
  section.hidden = !rows.length && !table.isShown?.(status);
  if (section.hidden) return;
  if (table.note) say(section.querySelector("p"), table.note(status));
  const kept = keyed(section.querySelector("tbody"), rows.map(table.key), () => row(table.columns));
  kept.forEach((tr, place) => table.columns.forEach((column, at) => {
    const cell = column.cell(rows[place], status);
    say(tr.children[at], cell.text ?? cell, cell.mood);
  }));
}

// Cards, troubles, history -------------------------------------------------------------------------------------------

function fillCards(status) {
  const all = cards(status);
  const kept = keyed(byId("cards"), all.map(card => card.name), name => {
    const div = document.createElement("div");
    div.className = "card";
    element("span", div).textContent = name;
    element("b", div);
    element("span", div, { class: "soft" });
    return div;
  });
  all.forEach((card, place) => {
    const div = kept[place];
    say(div.children[1], card.value, card.mood);
    say(div.children[2], card.note);
    if (card.share === undefined) return;
    const meter = div.querySelector("meter") || element("meter", div, { min: 0, max: 1, "aria-label": card.name });
    meter.value = card.share;
  });
}

function fillTroubles(status) {
  const all = troubles(status);
  keyed(byId("troubles"), all, text => {
    const li = document.createElement("li");
    li.textContent = text;
    return li;
  });
}

const WIDTH = 600, HEIGHT = 48, PERIODS = 60;
// A hundredth of the bound is the lower edge, the bound the middle, a hundred times it the upper edge.
const height = (seconds, bound) => Math.min(HEIGHT, Math.max(1, HEIGHT / 2 * (1 + Math.log10(seconds / bound) / 2)));

function plot(name) {
  const div = document.createElement("div");
  div.className = "plot";
  element("span", div);
  const svg = element("svg", div, { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": "p99 of class " + name });
  element("g", svg);
  element("line", svg, { class: "bound", x1: 0, x2: WIDTH, y1: HEIGHT / 2, y2: HEIGHT / 2 });
  return div;
}

function fillHistory(status) {
  const history = (status.history || []).filter(one => one.violated.length);
  byId("history").hidden = !history.length;
  say(byId("period"), Math.round(status.history_period_seconds || 10) + " s");
  const kept = keyed(byId("plots"), history.map(one => one.class), plot);
  history.forEach((one, place) => {
    const bound = status.classes.find(known => known.name === one.class)?.bound_seconds || 1;
    const over = one.p99_seconds.filter((p99, at) => p99 > bound || one.violated[at]).length;
    const was = over ? `late in ${over} of ${one.violated.length} periods` : one.p99_seconds.some(p99 => p99 !== null) ? "kept" : "nothing sent";
    say(kept[place].children[0], `${one.class}, bound ${time(bound)}: ${was}`);
    const bars = kept[place].querySelector("g"), step = WIDTH / PERIODS, begin = WIDTH - one.violated.length * step;
    const shown = JSON.stringify([one, bound]);
    if (bars.dataset.shown === shown) return;
    bars.dataset.shown = shown;
    bars.replaceChildren();
    one.p99_seconds.forEach((p99, at) => {
      const violated = one.violated[at];
      if (p99 === null && !violated) return;
      // Where records got late and none left, the whole period is marked.
      const tall = p99 === null ? HEIGHT : height(p99, bound);
      const kind = p99 === null ? "silent" : p99 > bound ? "over" : "kept";
      const bar = element("rect", bars, { class: kind, x: begin + at * step, width: step * 0.8, y: HEIGHT - tall, height: tall });
      element("title", bar).textContent = (p99 === null ? "nothing left" : "p99 " + time(p99)) + ", violated " + number(violated);
    });
  });
}

// The clock ----------------------------------------------------------------------------------------------------------

let awaySince = null, lastSeen = null;

function show(status) {
  document.title = status.node + " · Tidegate";
  say(byId("node"), status.node);
  say(byId("uptime"), uptime(status));
  fillCards(status);
  fillTroubles(status);
  fillHistory(status);
  for (const table of tables) fill(table, status);
}

const wall = date => date.toLocaleTimeString("en-GB");

function away() {
  awaySince ??= new Date();
  document.body.classList.add("stale");
  // The same words while it lasts: a screen reader says them once.
  const seen = lastSeen ? `; what is below was read at ${wall(lastSeen)}` : "";
  say(byId("state"), `the node is away since ${wall(awaySince)}${seen}`, "bad");
}

async function refresh() {
  try {
    const answer = await fetch("/status", { signal: AbortSignal.timeout(PATIENCE) });
    if (!answer.ok) throw new Error(await answer.text());
    const status = await answer.json();
    awaySince = null;
    lastSeen = new Date();
    document.body.classList.remove("stale");
    say(byId("state"), status.outputs.every(output => output.lanes_up) ? "running" : "running, and not all outputs are up");
    show(status);
  } catch (error) {
    if (!(error instanceof TypeError) && error.name !== "TimeoutError" && error.name !== "SyntaxError" && !/stopping/.test(error.message)) console.error(error);
    away();
  }
  setTimeout(refresh, PERIOD);
}

tables.forEach(build);
refresh();
