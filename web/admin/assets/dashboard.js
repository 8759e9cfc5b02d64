// The dashboard shows charts (curves) and strips (states) of the samples that the server streams.
// sampler.go describes a sample. Without scripts, the page reloads itself and shows only the
// current values.

const $ = (id) => document.getElementById(id);
const fractions = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10];
const spans = [1, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 6 * 3600, 12 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400];
const rate = (v) => `${brief.format(v)}/s`;
const counted = (s) => s.created_per_second !== undefined;
const taken = (source) => (s) => s.taken_per_second && (s.taken_per_second[source] ?? 0);
const quantiles = (of) => [
  { name: "p99", look: "first", of: (s) => s[`${of}_p99`] },
  { name: "p50", look: "second", of: (s) => s[`${of}_p50`] },
];

// charts describes each chart, by its name in about.parts. The first series of a chart is its main
// series. An optional series appears if it has a value above 0. Without load, some values do not
// exist, and the chart shows its idle text. The quantiles also do not exist while all requests fail.
const charts = {
  pool: {
    title: "Keys in the pool", known: (s) => s.pool_keys !== undefined, format: count, axis: (v) => brief.format(v),
    note: (s) => s?.pool_keys !== undefined && `${fillLevel(s.pool_keys / about.capacity_keys)} of ${count(about.capacity_keys)}`,
    series: [{ look: "first", fill: true, of: (s) => s.pool_keys }],
  },
  runway: {
    title: "Pool runway", known: (s) => s.pool_keys !== undefined, format: duration, axis: duration, marks: spans, usual: [60, 600], idle: "idle",
    series: [{ look: "first", of: (s) => s.runway_seconds }],
  },
  refilled: {
    title: "Keys refilled", known: (s) => s.refilled_per_second !== undefined, format: perSecond, axis: rate,
    series: [{ look: "first", fill: true, of: (s) => s.refilled_per_second }],
  },
  created: {
    title: "Links created", known: counted, format: perSecond, axis: rate,
    series: [
      { look: "first", fill: true, of: (s) => s.created_per_second },
      { name: "answers with 5xx, all requests", look: "poor", optional: true, of: (s) => s.failed_per_second },
    ],
  },
  create: {
    title: "Time of POST /shorten (201)", known: counted, format: latency, axis: latency, marks: fractions, usual: [1e-4, 1e-2], idle: "no 201 in 5 s",
    series: quantiles("create"),
  },
  taken: {
    title: "Keys taken", known: counted, format: perSecond, axis: rate,
    series: [
      { look: "first", fill: true, of: (s) => s.taken_per_second && Object.values(s.taken_per_second).reduce((a, b) => a + b, 0) },
      { name: "random", look: "warn", optional: true, of: taken("random") },
      { name: "from the ledger", look: "second", optional: true, of: taken("ledger") },
    ],
  },
  local: {
    title: "Keys in the local batch", known: (s) => s.local_keys !== undefined, format: count, axis: (v) => brief.format(v),
    series: [{ look: "first", fill: true, of: (s) => s.local_keys }],
  },
  redirects: {
    title: "Redirects", known: counted, format: perSecond, axis: rate,
    series: [{ look: "first", fill: true, of: (s) => s.redirects_per_second }],
  },
  redirect: {
    title: "Time of redirects (GET, 302)", known: counted, format: latency, axis: latency, marks: fractions, usual: [1e-4, 1e-2], idle: "no 302 in 5 s",
    series: quantiles("redirect"),
  },
};

// strips describes each strip, by its name in about.parts. An open circuit breaker lets one request
// through about every second as a test, and is then half-open. The list of changes shows a half-open
// breaker as open, so that these tests do not fill the list.
const strips = {
  state: { title: "State", of: (s) => s.state },
  serving_from: { title: "Serving from", of: (s) => s.serving_from },
  breaker: { title: "Circuit breaker", of: (s) => s.breaker, merged: { "half-open": "open" } },
  epoch: { title: "Epoch", of: (s) => s.epoch },
};

let about;
let samples = []; // samples of the last about.history_seconds, oldest first
let drawn = []; // the charts and the strips on the page
let source;
let heard = Date.now(); // time of the last sample, by the clock of the viewer
let stale = false;

// build creates the charts and strips that the server has named in about.parts. It runs after each
// new connection, because another program may listen at the address by then.
function build(is) {
  if (about && about.page !== is.page) location.reload(); // the program has another version of this page
  about = is;
  charts.pool.top = about.capacity_keys;
  charts.pool.levels = [["restart", about.restart_below, "warn"], ["page", about.page_below, "poor"]].map(
    ([name, at, look]) => ({ at, look, below: look === "poor", text: `${name} below ${percent(at / about.capacity_keys)}` }));
  const parts = (specs, Kind) => about.parts.filter((name) => specs[name]).map((name) => new Kind(name, specs[name]));
  const [curves, bands] = [parts(charts, Chart), [...parts(strips, Strip), new TimeAxis()]];
  $("charts").replaceChildren(...curves.map((c) => c.element));
  $("charts").className = `of-${curves.length}`;
  $("strips").replaceChildren(...bands.map((b) => b.element));
  $("instance").textContent = about.instance;
  for (const id of ["charts", "strips", "history"]) $(id).hidden = false;
  drawn = [...curves, ...bands];
}

function take(sample) {
  heard = Date.now();
  if (samples.length && sample.at < samples[0].at) samples = []; // a new process has an earlier clock: discard the samples of the old process
  if (samples.length && sample.at <= samples[samples.length - 1].at) return; // the server sent the sample again after a reconnection
  samples.push(sample);
  const since = sample.at - 1000 * about.history_seconds;
  while (samples[0].at < since) samples.shift();
  plan();
}

// present shows the newest status as text.
function present({ state, fill, rows }) {
  show(state, state);
  const [label, meter] = [make("label", { for: "fill" }, `Pool, ${fill} % full`),
    make("meter", { id: "fill", min: 0, max: 100, low: 100 * about.restart_below / about.capacity_keys, optimum: 100, value: fill })];
  $("level").replaceChildren(...(fill ? [label, meter] : []));
  $("facts").replaceChildren(...rows.map((r) => make("div", {}, make("dt", {}, r.label), make("dd", r.bad ? { class: "bad" } : {}, r.value))));
  $("clock").textContent = `${seconds.format(samples[samples.length - 1].at)} UTC`;
  watch();
}

function show(text, look) {
  if ($("state").textContent === text) return;
  $("state").textContent = text;
  $("state").className = `state ${look}`;
  document.title = `${text} - Keypool`;
}

let planned = false;

// plan makes the browser call draw once before the next frame, however often plan is called. A hidden
// page has no frames, so plan draws nothing on such a page.
function plan() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    draw();
  });
}

function draw() {
  if (!samples.length) return;
  const to = samples[samples.length - 1].at + (stale ? Date.now() - heard : 0);
  const have = (to - samples[0].at) / 1000;
  const span = 1000 * ([60, 180, 300, 600].find((s) => have <= s) ?? about.history_seconds);
  const since = to - span;
  const shown = samples.filter((s) => s.at >= since);
  for (const part of drawn) part.draw(shown, since, to);
  summarise(shown[shown.length - 1]);
  $("changes").replaceChildren(...changes(samples, Object.values(strips)).map(({ at, text, look }) =>
    make("li", { class: look }, make("time", { datetime: new Date(at).toISOString() }, seconds.format(at)), ` ${text}`)));
}

// summarise shows the newest states below the heading. It omits the state of the pool, because the
// heading shows it.
function summarise(newest) {
  const words = Object.entries(strips).filter(([name]) => name !== "state" && about.parts.includes(name)).map(([, spec]) => [spec.title, spec.of(newest)?.toString()]);
  $("summary").replaceChildren(...words.map(([title, word]) =>
    make("span", { class: word === undefined ? "unknown" : looks[word] ?? "plain" }, `${title} `, make("strong", {}, word ?? "unknown"))));
}

function connect() {
  source?.close();
  source = new EventSource("/events");
  source.addEventListener("about", (e) => build(JSON.parse(e.data)));
  source.addEventListener("sample", (e) => take(JSON.parse(e.data)));
  source.addEventListener("facts", (e) => present(JSON.parse(e.data)));
}

// watch reports missing samples and reconnects. A browser reconnects by itself, except in two cases: the
// server has refused the connection, or the browser does not notice that the connection is broken.
function watch() {
  const silent = Math.floor((Date.now() - heard) / 1000);
  stale = silent > 3;
  document.body.classList.toggle("stale", stale);
  const said = stale ? "The values shown are old." : "";
  if ($("said").textContent !== said) $("said").textContent = said;
  $("age").textContent = stale ? `Last sample ${duration(silent)} ago, at ${seconds.format(heard)}` : "";
  if (stale) {
    show("Disconnected", "disconnected");
    plan();
  }
  if ((source.readyState === EventSource.CLOSED && silent % 2 === 0) || (stale && silent % 10 === 0)) connect();
}

addEventListener("resize", plan);
connect();
setInterval(watch, 1000);
