// A chart shows a title, the newest values of its series, and curves of the series over time.

const gap = 3000; // milliseconds without a sample after which the values are unknown
const svgNamespace = "http://www.w3.org/2000/svg";

function make(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

function shape(name, attributes = {}, ...children) {
  const e = document.createElementNS(svgNamespace, name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, typeof v === "number" ? v.toFixed(1) : v);
  e.append(...children);
  return e;
}

// emOf returns the font size of a drawing in pixels. Drawings use it as their unit of length.
function emOf(svg) {
  return parseFloat(getComputedStyle(svg).fontSize);
}

// linear returns an axis from 0 to at least top, or to 1 when top is 0.
function linear(top) {
  top ||= 1;
  const rough = top / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((f) => f * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let i = 0; i === 0 || ticks[i - 1] < top * 0.999; i++) ticks.push(i * step);
  const end = ticks[ticks.length - 1];
  return { ticks, at: (v) => Math.min(1, v / end) };
}

// logarithmic returns an axis over the marks that enclose low and high. Values beyond the marks are drawn at the first
// or the last mark.
function logarithmic(marks, low, high) {
  const first = Math.max(0, marks.findLastIndex((m) => m <= low));
  let last = marks.findIndex((m) => m >= high);
  if (last < 0) last = marks.length - 1;
  if (last === first) last = Math.min(first + 1, marks.length - 1);
  const ticks = marks.slice(Math.min(first, last - 1), last + 1);
  const [a, b] = [Math.log(ticks[0]), Math.log(ticks[ticks.length - 1])];
  return { ticks, at: (v) => Math.min(1, Math.max(0, (Math.log(v) - a) / (b - a))) };
}

// timeTicks returns round times between from and to. The parameter most limits how many steps fit between
// from and to. The times are as close together as this limit allows.
function timeTicks(from, to, most) {
  const step = [5, 10, 30, 60, 120, 300, 600].map((s) => 1000 * s).find((s) => (to - from) / s <= most) ?? 600000;
  const ticks = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
    ticks.push({ at: t, text: (step < 60000 ? seconds : minutes).format(t) });
  }
  return ticks;
}

// drawTimes draws the time axis below bottom, between left and right.
function drawTimes(svg, x, { from, to, left, right, bottom, em }) {
  for (const { at, text } of timeTicks(from, to, (right - left) / (6 * em))) {
    const half = 0.3 * em * text.length;
    svg.append(shape("path", { class: "tick", d: `M${x(at).toFixed(1)} ${bottom}v${(0.3 * em).toFixed(1)}` }));
    if (x(at) - half < left - em || x(at) + half > right + 0.2 * em) continue;
    svg.append(shape("text", { x: x(at), y: bottom + 1.3 * em, "text-anchor": "middle" }, text));
  }
}

// unknowns returns the spans between from and to in which the value is unknown.
function unknowns(samples, known, from, to) {
  const spans = [];
  const add = (a, b) => {
    a = Math.max(a, from);
    const last = spans[spans.length - 1];
    if (last && a <= last[1]) last[1] = b;
    else if (b > a) spans.push([a, b]);
  };
  samples.forEach((s, i) => {
    const next = samples[i + 1]?.at ?? to;
    if (next - s.at > gap) add(known(s) ? s.at + 1000 : s.at, next);
    else if (!known(s)) add(s.at, next);
  });
  return spans;
}

// segmentsOf returns the points of a series, split into segments at unknown values.
function segmentsOf(samples, of) {
  const all = [];
  let before = -Infinity;
  for (const s of samples) {
    const v = of(s);
    if (v === undefined) {
      before = -Infinity;
      continue;
    }
    if (s.at - before > gap) all.push([]);
    all[all.length - 1].push([s.at, v]);
    before = s.at;
  }
  return all;
}

class Chart {
  constructor(name, spec) {
    this.spec = spec;
    this.now = make("p", { class: "now" });
    this.svg = shape("svg", { role: "img" });
    this.element = make("section", { class: "panel chart", id: `chart-${name}`, "aria-labelledby": `title-${name}` },
      make("h2", { id: `title-${name}` }, spec.title), this.now, make("div", { class: "plot" }, this.svg));
  }

  // draw shows the samples between the times from and to.
  draw(samples, from, to) {
    const series = this.spec.series.filter((s) => !s.optional || samples.some((sample) => s.of(sample) > 0));
    this.drawNow(series, samples[samples.length - 1]);
    const values = samples.flatMap((sample) => series.map((s) => s.of(sample))).filter((v) => v !== undefined);
    this.describe(series[0], samples);
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width) return;
    const { marks, usual } = this.spec;
    const axis = marks ?
      logarithmic(marks, ...(values.length ? [Math.min(...values), Math.max(...values)] : usual)) :
      linear(Math.max(this.spec.top ?? 0, ...values));
    this.svg.replaceChildren();
    const em = emOf(this.svg);
    const labels = axis.ticks.map(tick(this.spec.axis));
    if (marks && Math.min(...values) < axis.ticks[0]) labels[0] = `≤ ${labels[0]}`; // such as a runway of 0 s
    if (marks && Math.max(...values) > axis.ticks[axis.ticks.length - 1]) labels[labels.length - 1] = `≥ ${labels[labels.length - 1]}`;
    const area = { from, to, em, left: em * (0.8 + 0.56 * Math.max(...labels.map((l) => l.length))), right: width - 1, top: 0.6 * em, bottom: height - 1.7 * em };
    const x = (t) => area.left + (area.right - area.left) * (t - from) / (to - from);
    const y = (v) => area.bottom - (area.bottom - area.top) * axis.at(v);
    for (const [a, b] of unknowns(samples, this.spec.known, from, to)) {
      this.svg.append(shape("rect", { class: "unknown", x: x(a), y: area.top, width: x(b) - x(a), height: area.bottom - area.top }));
    }
    this.drawGrid(axis, labels, area, y);
    drawTimes(this.svg, x, area);
    for (const s of [...series].reverse()) this.drawSeries(s, segmentsOf(samples, s.of), x, y, area);
    this.drawLevels(area, y);
  }

  // drawNow writes the newest value of each series. The written texts are also the legend.
  drawNow(series, newest) {
    const [first, ...others] = series;
    const write = (s) => newest && s.of(newest) !== undefined ? this.spec.format(s.of(newest)) : undefined;
    const strong = make("strong", {}, write(first) ?? (newest && this.spec.known(newest) ? this.spec.idle ?? "unknown" : "unknown"));
    const notes = [this.spec.note?.(newest)].filter(Boolean).map((n) => make("span", {}, n));
    const name = first.name ? [make("span", { class: `key ${first.look}` }, first.name)] : [];
    const rest = others.map((s) => make("span", { class: `key ${s.look}` }, `${s.name} ${write(s) ?? ""}`.trim()));
    this.now.replaceChildren(strong, ...name, ...notes, ...rest);
  }

  // describe writes the text alternative of the chart.
  describe(series, samples) {
    const values = samples.map(series.of).filter((v) => v !== undefined);
    const span = samples.length ? duration((samples[samples.length - 1].at - samples[0].at) / 1000) : "0 s";
    const missing = samples.filter((s) => !this.spec.known(s)).length;
    const range = values.length ? `${this.spec.format(Math.min(...values))} to ${this.spec.format(Math.max(...values))}` : "no values";
    this.svg.setAttribute("aria-label", `${this.spec.title}, over ${span}: ${range}${missing ? `; unknown for ${duration(missing)}` : ""}`);
  }

  drawGrid(axis, labels, { left, right, em }, y) {
    let free = Infinity;
    axis.ticks.forEach((v, i) => {
      this.svg.append(shape("path", { class: i ? "grid" : "base", d: `M${left.toFixed(1)} ${y(v).toFixed(1)}H${right.toFixed(1)}` }));
      if (y(v) > free) return;
      free = y(v) - 1.3 * em;
      this.svg.append(shape("text", { x: left - 0.5 * em, y: y(v) + 0.35 * em, "text-anchor": "end" }, labels[i]));
    });
  }

  drawSeries(s, parts, x, y, { bottom }) {
    const line = parts.map((points) => "M" + points.map(([t, v]) => `${x(t).toFixed(1)} ${y(v).toFixed(1)}`).join("L") + "h.1").join("");
    if (s.fill) {
      const fill = parts.map((points) => `M${x(points[0][0]).toFixed(1)} ${bottom}L` +
        points.map(([t, v]) => `${x(t).toFixed(1)} ${y(v).toFixed(1)}`).join("L") + `L${x(points[points.length - 1][0]).toFixed(1)} ${bottom}Z`).join("");
      this.svg.append(shape("path", { class: `fill ${s.look}`, d: fill }));
    }
    this.svg.append(shape("path", { class: `line ${s.look}`, d: line }));
  }

  drawLevels({ left, right, em }, y) {
    for (const { at, text, look, below } of this.spec.levels ?? []) {
      this.svg.append(
        shape("path", { class: `level ${look}`, d: `M${left.toFixed(1)} ${y(at).toFixed(1)}H${right.toFixed(1)}` }),
        shape("text", { class: `level ${look}`, x: right - 0.3 * em, y: y(at) + (below ? 1.05 : -0.35) * em, "text-anchor": "end" }, text));
    }
  }
}
