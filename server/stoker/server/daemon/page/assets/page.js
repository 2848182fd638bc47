// Shows the events of the daemon. Text from outside enters the document as textContent alone.
"use strict";

const SPAN_S = 60;
// What a worker does, and how high its bar is: color is not the only carrier. Idle has none.
const HEIGHTS = { read: 0.35, decode: 0.55, op: 0.75, write: 0.9, other: 0.2, prepares: 1 };
const PREPARES = new Set(["starting", "opening", "compiling", "ending"]);
const RATE_S = 3;
const AGAIN_MS = 5000;

const by = (id) => document.getElementById(id);

function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  if (options.text !== undefined) made.textContent = options.text;
  if (options.kind) made.className = options.kind;
  for (const [name, value] of Object.entries(options.set || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// ---------------------------------------------------------------- numbers as text

const percent = (part) => `${Math.round(100 * part)} %`;

const width = (part) => `${100 * Math.min(Math.max(part, 0), 1)}%`;
const ms = (value) => `${value.toFixed(value < 10 ? 2 : 1)} ms`;

function number(value) {
  return value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(2)));
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at += 1; }
  return `${at ? bytes.toFixed(1) : bytes} ${units[at]}`;
}

function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB");
const who = (one) => one.name || `${one.user || "?"}@${one.host || "?"}:${one.pid}`;

// ---------------------------------------------------------------- lists that keep their nodes

// Makes `parent` hold one node for each item, in their order; a node stays as long as its key does.
function keep(parent, items, keyOf, make, update, empty) {
  const nodes = parent.kept || (parent.kept = new Map());
  const wanted = new Set(items.map(keyOf));
  for (const [key, node] of nodes) {
    if (!wanted.has(key)) { node.remove(); nodes.delete(key); }
  }
  let before = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let node = nodes.get(key);
    if (!node) { node = make(item); nodes.set(key, node); }
    if (node === before) before = before.nextElementSibling;
    else parent.insertBefore(node, before);
    update(node, item);
  }
  const note = parent.querySelector(":scope > .nothing");
  if (items.length && note) note.remove();
  if (!items.length && !note) parent.append(nothing(parent, empty));
}

function nothing(parent, text) {
  if (parent.tagName !== "TBODY") return element(parent.tagName === "UL" ? "li" : "p", { text, kind: "nothing empty" });
  const cell = element("td", { text, kind: "empty" });
  cell.colSpan = parent.parentElement.tHead.rows[0].cells.length;
  return element("tr", { kind: "nothing" }, cell);
}

// A row whose cells are filled once, for lists whose items never change.
function fixedRow(cells) {
  return element("tr", {}, ...cells.map(([text, kind]) => element("td", { text, kind })));
}

// ---------------------------------------------------------------- verdicts

const WORDS = { data: "▲ data-bound", compute: "● compute-bound", none: "○ no verdict" };

function showVerdicts(state) {
  keep(by("verdicts"), state.sessions, (one) => one.number, () => element("li", {},
    element("p", { kind: "bound" }),
    element("div", {}, element("p", { kind: "who" }), element("p", { kind: "why" }), element("p", { kind: "advice" }))),
  (node, one) => {
    const { bound, text, advice } = one.verdict;
    node.className = bound;
    say(node.querySelector(".bound"), WORDS[bound]);
    say(node.querySelector(".who"), who(one));
    say(node.querySelector(".why"), sentence(text));
    say(node.querySelector(".advice"), advice ? `${advice}.` : "");
  }, "No client is connected.");
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

// ---------------------------------------------------------------- workers

const samples = new Map(); // number of a worker -> [[time, what it does], ...]

const does = (state) => (PREPARES.has(state) ? "prepares" : state);
const worked = (points, what) => points.filter(([, found]) => found === what).length / points.length;

function addWorker(worker, time, what) {
  const points = samples.get(worker) || [];
  points.push([time, what]);
  while (points[0][0] < time - SPAN_S) points.shift();
  samples.set(worker, points);
}

function rememberWorkers(state) {
  for (const one of state.workers) addWorker(one.worker, state.time, does(one.state));
  const there = new Set(state.workers.map((one) => one.worker));
  for (const key of samples.keys()) if (!there.has(key)) samples.delete(key);
}

function showWorkers(state) {
  by("timeline").hidden = !state.workers.length;
  if (!state.workers.length) return;
  const style = getComputedStyle(document.documentElement);
  const colors = Object.fromEntries(Object.keys(HEIGHTS).map((what) => [what, style.getPropertyValue(`--${what}`)]));
  keep(by("legend"), ["idle", ...Object.keys(HEIGHTS)], (what) => what, (what) => {
    const bar = element("span", { kind: what });
    bar.style.height = width(HEIGHTS[what] || 0);
    const text = what === "prepares" ? "starts, opens or compiles" : what;
    return element("li", {}, element("span", { kind: "swatch", set: { "aria-hidden": "true" } }, bar), text);
  }, () => {}, "");
  keep(by("workers"), state.workers, (one) => one.worker, (one) => element("div", { kind: "worker" },
    element("span", { text: `worker ${one.worker}` }), element("canvas", { set: { role: "img" } }), element("span", { kind: "now" })),
  (node, one) => {
    const [, canvas, now] = node.children;
    draw(canvas, samples.get(one.worker), state.time, colors);
    const op = one.op ? ` ${one.op}` : "";
    say(now, `${one.state}${op}${one.client ? ` for ${one.client}` : ""}`);
  }, "");
  by("more-workers").hidden = !state.more_workers;
  say(by("more-workers"), `and ${state.more_workers} more`);
}

function draw(canvas, points, end, colors) {
  const scale = devicePixelRatio || 1;
  const [wide, high] = [canvas.clientWidth * scale, canvas.clientHeight * scale].map(Math.round);
  if (canvas.width !== wide || canvas.height !== high) { canvas.width = wide; canvas.height = high; }
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, wide, high);
  const place = (time) => Math.round(wide * (1 - (end - time) / SPAN_S));
  points.forEach(([time, what], at) => {
    if (!HEIGHTS[what]) return;
    const from = at ? Math.max(place(points[at - 1][0]), place(time - 2)) : place(time) - 1;
    pen.fillStyle = colors[what];
    pen.fillRect(from, high * (1 - HEIGHTS[what]), Math.max(place(time) - from, 1), high);
  });
  const parts = ["idle", ...Object.keys(HEIGHTS)].map((what) => [what, worked(points, what)]).filter(([, part]) => part);
  canvas.setAttribute("aria-label", parts.map(([what, part]) => `${what} ${percent(part)}`).join(", "));
}

// ---------------------------------------------------------------- sessions

const histories = new Map(); // number of a session -> [[time, announced], ...]

function addSession(session, time, announced) {
  const points = histories.get(session) || [];
  if (points.length && points[points.length - 1][1] > announced) points.length = 0; // opened again
  points.push([time, announced]);
  while (points[0][0] < time - SPAN_S - RATE_S) points.shift();
  histories.set(session, points);
}

function remember(state) {
  for (const one of state.sessions) addSession(one.number, state.time, one.announced);
  const there = new Set(state.sessions.map((one) => one.number));
  for (const key of histories.keys()) if (!there.has(key)) histories.delete(key);
}

// Returns [[seconds ago, batches per second], ...], each over the last RATE_S.
function rates(points) {
  const found = [];
  const end = points[points.length - 1][0];
  let from = 0;
  for (const [time, count] of points) {
    while (points[from][0] < time - RATE_S) from += 1;
    const passed = time - points[from][0];
    if (passed > RATE_S / 3) found.push([end - time, (count - points[from][1]) / passed]);
  }
  return found;
}

const SVG = "http://www.w3.org/2000/svg";

function rateLine() {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "rate");
  svg.setAttribute("viewBox", "0 0 60 20");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const base = document.createElementNS(SVG, "path");
  base.setAttribute("d", "M0 19.5H60");
  svg.append(base, document.createElementNS(SVG, "polyline"));
  return svg;
}

function sessionRow() {
  const two = () => element("td", {}, element("div", { kind: "first" }), element("div", { kind: "dim" }));
  const bar = element("div", { kind: "bar", set: { "aria-hidden": "true" } }, element("span"));
  return element("tr", {}, two(), two(),
    element("td", { kind: "nowrap" }, element("div"), bar),
    element("td", {}, rateLine(), element("div", { kind: "dim" })),
    element("td", { kind: "number" }), element("td", { kind: "number" }),
    element("td", { kind: "number" }), element("td", { kind: "number" }));
}

function showSessions(state) {
  keep(by("sessions"), state.sessions, (one) => one.number, sessionRow, (row, one) => {
    const [client, reads, place, rate, ready, slots, none, last] = row.cells;
    const from = `${one.user || "?"}@${one.host || "?"}:${one.pid}`;
    say(client.children[0], who(one));
    say(client.children[1], one.name ? from : `session ${one.number}`);
    say(reads.children[0], one.dataset ? `${one.dataset} / ${one.pipeline || "?"}` : "nothing yet");
    const ranks = one.world_size > 1 ? `, rank ${one.rank} of ${one.world_size}` : "";
    say(reads.children[1], `${one.state}${ranks}${one.group ? `, group ${one.group}` : ""}`);
    const open = one.state === "open";
    say(place.children[0], open ? `${one.epoch}${one.epochs ? ` of ${one.epochs}` : ""}: ${one.step} of ${one.steps}` : "–");
    place.children[1].firstElementChild.style.width = width(one.steps ? one.step / one.steps : 0);
    const line = rates(histories.get(one.number));
    const top = Math.max(...line.map(([, value]) => value), 1e-9);
    const points = line.map(([ago, value]) => `${(SPAN_S - ago).toFixed(1)},${(19 - 18 * value / top).toFixed(1)}`);
    rate.firstElementChild.lastElementChild.setAttribute("points", points.join(" "));
    const newest = line.length ? line[line.length - 1][1] : 0;
    say(rate.children[1], `${number(newest)} batches/s, ${number(newest * one.rows)} rows/s`);
    say(ready, open ? String(one.untaken) : "–");
    say(slots, open ? String(one.slots) : "–");
    say(none, open ? `${duration(one.waited_s)} (${percent(one.waited_s / one.age_s)})` : "–");
    say(last, one.returned_s < 0 ? "never" : `${duration(one.returned_s)} ago`);
  }, "No client is connected.");
  const more = by("more-sessions");
  more.hidden = !state.more_sessions;
  say(more, `and ${state.more_sessions} more`);
}

// ---------------------------------------------------------------- limits

function showLimits(state) {
  keep(by("limits"), state.limits, (one) => one.name, (one) => element("li", {},
    element("span", { text: one.name }),
    element("div", { kind: "bar", set: { role: "meter", "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": one.name } }, element("span")),
    element("span"), element("span", { kind: "raise dim", text: `more by ${one.raised_by}` })),
  (node, one) => {
    const [, bar, text, raise] = node.children;
    const shown = one.unit === "bytes" ? size : number;
    const full = one.part >= 0.9;
    const words = `${shown(one.used)} of ${shown(one.limit)} (${percent(one.part)})${full ? ", full" : ""}`;
    bar.firstElementChild.style.width = width(one.part);
    bar.setAttribute("aria-valuenow", Math.round(100 * Math.min(one.part, 1)));
    bar.setAttribute("aria-valuetext", words);
    bar.classList.toggle("full", full);
    text.classList.toggle("full", full);
    say(text, words);
    raise.hidden = one.part < 0.7;
  }, "");
}

// ---------------------------------------------------------------- stages

const stageName = (one) => (one.op ? `op ${one.op}` : one.stage);

function showStages(state) {
  keep(by("stages"), state.stages, (one) => JSON.stringify([one.dataset, one.pipeline]), (one) => {
    const heads = ["Stage", "Time a row", "Part", "Processor time"];
    const row = element("tr", {}, ...heads.map((text, at) => element("th", { text, kind: at ? "number" : "", set: { scope: "col" } })));
    return element("div", {}, element("h3"),
      element("div", { kind: "stack", set: { "aria-hidden": "true" } }),
      element("table", {}, element("thead", {}, row), element("tbody")));
  }, (node, one) => {
    const [title, stack, table] = node.children;
    const whole = one.stages.reduce((sum, stage) => sum + stage.wall_ms, 0) || 1e-9;
    say(title, `${one.dataset} / ${one.pipeline}: ${ms(whole)} a row`);
    keep(stack, one.stages, stageName, (stage) => element("span", { kind: stage.stage }),
      (part, stage) => { part.style.width = width(stage.wall_ms / whole); }, "");
    keep(table.tBodies[0], one.stages, stageName, (stage) => element("tr", {},
      element("td", {}, element("span", { kind: `key ${stage.stage}`, set: { "aria-hidden": "true" } }), stageName(stage)),
      element("td", { kind: "number" }), element("td", { kind: "number" }), element("td", { kind: "number" })),
    (line, stage) => {
      say(line.cells[1], ms(stage.wall_ms));
      say(line.cells[2], percent(stage.wall_ms / whole));
      say(line.cells[3], ms(stage.cpu_ms));
    }, "No row was timed yet.");
  }, "No row was timed yet.");
}

// ---------------------------------------------------------------- notes

function showNotes(state) {
  const key = (one) => JSON.stringify(one);
  keep(by("warnings"), state.warnings, key, (one) => fixedRow([
    [clock(one.time), "nowrap"], [one.level, one.level === "error" ? "error" : "warning"], [one.event], [one.facts],
  ]), () => {}, "None since the start.");
  keep(by("bad-samples"), state.bad_samples, key, (one) => fixedRow([
    [clock(one.time), "nowrap"], [String(one.id), "number"], [one.field], [one.reason], [one.source], [one.dataset, "dim"],
  ]), () => {}, "None since the start.");
}

// ---------------------------------------------------------------- the whole

function showDaemon(state) {
  const facts = {
    release: state.version, address: state.address, process: String(state.pid),
    workers: `${state.workers_up} up, ${percent(state.busy)} busy`, rows: `${number(state.rows_per_s)}/s`,
  };
  keep(by("daemon"), Object.entries(facts), ([name]) => name,
    ([name]) => element("div", {}, element("dt", { text: name }), element("dd")),
    (node, [, text]) => say(node.lastElementChild, text), "");
}

function tell(text, bad) {
  say(by("status"), text);
  by("status").classList.toggle("bad", bad);
}

let paused = false;

function show(state) {
  remember(state);
  rememberWorkers(state);
  if (state.behind_s > 5) tell(`the daemon's loop hangs for ${duration(state.behind_s)}`, true);
  else if (state.unready) tell(`not ready: ${state.unready}`, true);
  else tell("ready", false);
  if (paused) return;
  showDaemon(state);
  showVerdicts(state);
  showWorkers(state);
  showSessions(state);
  showLimits(state);
  showStages(state);
  showNotes(state);
}

// The last minute, with which each stream begins; the daemon may be another than before.
function recall(moments) {
  samples.clear();
  histories.clear();
  for (const { time, workers, sessions } of moments) {
    for (const [worker, state] of Object.entries(workers)) addWorker(Number(worker), time, does(state));
    for (const [session, announced] of Object.entries(sessions)) addSession(Number(session), time, announced);
  }
}

// A stream that breaks is opened again by the browser; one that is refused is not.
function listen() {
  const source = new EventSource("/events");
  source.addEventListener("history", (event) => recall(JSON.parse(event.data)));
  source.onmessage = (event) => show(JSON.parse(event.data));
  source.onerror = async () => {
    tell("no connection to the daemon; trying again", true);
    if (source.readyState !== EventSource.CLOSED) return;
    const status = await fetch("/events", { method: "HEAD" }).then((answer) => answer.status, () => 0);
    if (status === 503) tell("as many pages are open as may be; waiting until one is closed", true);
    setTimeout(listen, AGAIN_MS);
  };
}

by("pause").addEventListener("click", () => {
  paused = !paused;
  by("pause").setAttribute("aria-pressed", String(paused));
});
listen();
