"use strict";
const WINDOW_S = 60, ROW = 26, TOP = 22, LEFT = 24, BELOW = 22;
const SVG = "http://www.w3.org/2000/svg";
const COLOURS = ["#6ea8dc", "#d0a24b", "#a58fd8", "#5bb8a6", "#d98bb0", "#9cae5e", "#8fa1b8",
  "#b98d6b", "#58b4cc"];
const GOOD = ["leads", "reads"], IDLE = ["starting", "stands by", "waits", "ended"];
const MARKS = {leads: "★", reads: "▶", starting: "…", "stands by": "○", waits: "○", paused: "‖", killed: "✗",
  "cut off": "⌁", ended: "–"};
const LIVE = !JSON.parse(byId("snapshot").textContent);
const EVERY_MS = matchMedia("(prefers-reduced-motion: reduce)").matches ? 2000 : 500;
let shown = null, unanswered = 0;

function byId(id) { return document.getElementById(id); }
function colour(reader) { return COLOURS[(Number(reader) - 1) % COLOURS.length]; }
function seconds(s) { return s < 10 ? s.toFixed(1) + " s" : Math.round(s) + " s"; }
function write(id, text) { if (byId(id).textContent !== text) byId(id).textContent = text; }

function made(name, text, kind) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

function drawn(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function chip(reader) {
  const element = made("span", reader === null ? "" : reader, reader === null ? "chip nobody" : "chip");
  if (reader !== null) element.style.setProperty("--of", colour(reader));
  return element;
}

/* The chart: a row for each partition; who read it over the last minute, or over the whole run. */
function chart(s) {
  const width = Math.max(byId("chart").clientWidth, 200);
  const until = Math.max(s.now_s, 10);
  const since = s.chapter === "over" ? 0 : Math.max(0, until - WINDOW_S);
  const height = TOP + s.partitions.length * ROW + BELOW;
  const x = t => LEFT + (Math.min(Math.max(t, since), until) - since) / (until - since) * (width - LEFT - 1);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  const hatch = drawn(drawn(svg, "defs", {}), "pattern",
    {id: "hatched", width: 6, height: 6, patternUnits: "userSpaceOnUse"});
  drawn(hatch, "path", {d: "M -1 7 L 7 -1", class: "hatch"});
  s.partitions.forEach((p, row) => {
    const y = TOP + row * ROW;
    drawn(svg, "text", {x: 0, y: y + 17}, String(p.number));
    drawn(svg, "rect", {x: LEFT, y: y + 2, width: width - LEFT, height: ROW - 4, class: "row"});
  });
  const step = (until - since) / (width - LEFT) > 0.2 ? 20 : 10;
  for (let t = Math.ceil(since / step) * step; t <= until; t += step) {
    drawn(svg, "line", {x1: x(t), x2: x(t), y1: TOP, y2: height - BELOW + 4, class: "grid"});
    const anchor = x(t) > width - 24 ? "end" : x(t) < LEFT + 12 ? "start" : "middle";
    drawn(svg, "text", {x: x(t), y: height - 4, "text-anchor": anchor}, t + " s");
  }
  const labels = document.createElementNS(SVG, "g");
  s.partitions.forEach((p, row) => rowOf(svg, labels, p, TOP + row * ROW, x, since));
  flags(svg, s.acts, x, since, width, height);
  svg.append(labels);
  byId("chart").replaceChildren(svg);
  const readers = s.partitions.map(p => `partition ${p.number}: ` +
    (p.reader === null ? "nobody" : "consumer " + p.reader));
  byId("chart").setAttribute("aria-label",
    `Who read which partition from ${seconds(since)} to ${seconds(until)}. At the end, ${readers.join(", ")}.`);
}

function rowOf(svg, labels, p, y, x, since) {
  for (const [reader, from, to] of p.stretches) {
    if (to < since) continue;
    const wide = Math.max(x(to) - x(from), 1.5);
    drawn(svg, "rect", {x: x(from), y: y + 2, width: wide, height: ROW - 4, rx: 2, fill: colour(reader)});
    if (wide > 14) drawn(labels, "text", {x: x(from) + wide / 2, y: y + 17, class: "of"}, reader);
  }
  for (const [from, to] of p.silences) {
    if (to < since) continue;
    const wide = x(to) - x(from);
    drawn(svg, "rect", {x: x(from), y: y + 2.5, width: wide, height: ROW - 5, class: "silence"});
    const text = wide > 110 ? "nobody " + seconds(to - from) : wide > 38 ? seconds(to - from) : "";
    if (!text) continue;
    const middle = x(from) + wide / 2, half = 3 + text.length * 3.3;
    drawn(labels, "rect", {x: middle - half, y: y + 5, width: 2 * half, height: ROW - 10, rx: 2, class: "plate"});
    drawn(labels, "text", {x: middle, y: y + 17, class: "silent"}, text);
  }
}

/* A numbered flag for each act; one that would cover its neighbour has its line alone. */
function flags(svg, acts, x, since, width, height) {
  let free = 0;
  acts.forEach((act, index) => {
    if (act.at_s < since) return;
    const at = x(act.at_s);
    drawn(svg, "line", {x1: at, x2: at, y1: 16, y2: height - BELOW, class: "act"});
    const middle = Math.min(at, width - 9);
    if (middle - 9 < free) return;
    drawn(svg, "rect", {x: middle - 9, y: 1, width: 18, height: 15, rx: 2, class: "flag"});
    drawn(svg, "text", {x: middle, y: 12.5, class: "number"}, String(index + 1));
    free = middle + 10;
  });
}

function partitions(s) {
  byId("partitions").replaceChildren(...s.partitions.map(p => {
    const row = made("tr"), number = made("th", String(p.number)), by = made("td");
    number.scope = "row";
    if (s.chapter === "starting") by.append("–");
    else if (p.reader === null) by.append(chip(null), made("span", "nobody", "nobody-reads"));
    else by.append(chip(p.reader), "consumer " + p.reader);
    by.className = "by";
    row.append(number, by, made("td", seconds(p.for_s), "number"),
      made("td", p.longest_s ? seconds(p.longest_s) : "–", "number"));
    return row;
  }));
}

function nodes(id, all) {
  byId(id).replaceChildren(...all.map(node => {
    const item = made("li"), name = made("span");
    if (node.number) name.append(chip(node.number));
    name.append(node.name);
    const kind = GOOD.includes(node.state) ? "good" : IDLE.includes(node.state) ? "idle" : "bad";
    item.append(name, made("span", `${MARKS[node.state] || ""} ${node.state}`, "state " + kind),
      made("small", node.more));
    return item;
  }));
}

function acts(s) {
  const items = s.acts.map((act, index) => {
    const item = made("li"), told = made("div", act.told + ".");
    const silence = act.silence;
    if (silence) told.append(made("small", `longest without a reader after that: ` +
      `${seconds(silence.lasted_s)}, partition ${silence.partition}`, "silence"));
    else told.append(made("small", "no partition was without a reader for more than half a second"));
    item.append(made("span", String(index + 1), "flag"), made("time", seconds(act.at_s)), told);
    return item;
  });
  byId("acts").replaceChildren(...items.reverse());
  write("next", s.next_s === null ? (s.acts.length ? "" : "Nothing yet.")
    : s.next_s > 0 ? `The next step comes in ${Math.ceil(s.next_s)} s.`
    : "The next step comes as soon as somebody leads.");
}

function legend(s) {
  const all = s.consumers.map(c => { const e = made("span"); e.append(chip(c.number), c.name); return e; });
  const nobody = made("span");
  nobody.append(chip(null), "nobody");
  byId("legend").replaceChildren(...all, nobody);
}

function badge(text, kind) { write("badge", text); byId("badge").className = "badge " + kind; }

function show(s) {
  shown = s;
  document.body.className = s.chapter;
  const first = s.saying.charAt(0).toUpperCase() + s.saying.slice(1);
  write("saying", first && first + ".");
  if (!s.ending) badge(s.chapter === "running" ? `${Math.floor(s.now_s)} s of ${Math.round(s.seconds)} s` : s.chapter, "expected");
  for (const name of ["two", "lost", "again", "read"]) write(name, s.counts[name].toLocaleString("en"));
  write("rate", String(Math.round(s.rate)));
  for (const name of ["two", "lost"]) byId(name).parentNode.classList.toggle("wrong", s.counts[name] > 0);
  legend(s); chart(s); partitions(s); acts(s);
  nodes("coordinators", s.coordinators); nodes("consumers", s.consumers);
  document.title = (s.ending ? "over" : byId("badge").textContent) + " – herdproof demo";
}

async function end(s) {
  const kinds = {0: ["● holds", "holds"], 1: ["✗ violated", "fails"], 3: ["? unknown", "unknown"]};
  badge(...kinds[s.ending.code]);
  const link = made("a", "The audit's page of this run");
  link.href = "report.html";
  byId("ending").replaceChildren(s.ending.sentence + " ", link, LIVE ? ` (${s.ending.report})` : "");
  byId("ending").hidden = false;
  write("saying", "All processes have ended.");
  if (LIVE) {  /* nobody will serve it much longer: it is kept in this page */
    const answer = await fetch("report");
    link.href = URL.createObjectURL(new Blob([await answer.blob()], {type: "text/html"}));
  }
}

async function look() {
  try {
    const answer = await fetch("snapshot");
    const s = await answer.json();
    unanswered = 0;
    show(s);
    if (s.ending) { await end(s); return; }
  } catch (problem) {
    if (++unanswered > 4) { badge("no answer", "fails"); write("saying", "The demonstration has ended; its terminal says how."); return; }
  }
  setTimeout(look, EVERY_MS);
}

addEventListener("resize", () => shown && chart(shown));
if (LIVE) look();
else { const kept = JSON.parse(byId("snapshot").textContent); show(kept); if (kept.ending) end(kept); }
