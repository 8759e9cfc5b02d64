// This file shows states over time as strips and as a list of changes.

// looks maps each state to a word for how good or bad the state is. The word determines the colour. Other states, such
// as epochs, are neither good nor bad.
const looks = {
  ok: "good", batch: "good", closed: "good", filling: "busy",
  restart: "warn", fallback: "warn", "half-open": "warn",
  failing: "poor", page: "poor", none: "poor", open: "poor",
};

// segments returns the time spans in which a state does not change. word is the state, and is
// undefined while the state is unknown.
function segments(samples, of, to) {
  const all = [];
  samples.forEach((s, i) => {
    const next = samples[i + 1]?.at ?? to;
    const late = next - s.at > gap;
    const word = of(s)?.toString();
    const last = all[all.length - 1];
    const end = late ? s.at + 1000 : next;
    if (last && last.word === word && last.to === s.at) last.to = end;
    else all.push({ word, from: s.at, to: end });
    if (late) all.push({ from: end, to: next });
  });
  return all;
}

class Strip {
  constructor(name, spec) {
    this.spec = spec;
    this.word = make("strong");
    this.svg = shape("svg", { role: "img" });
    this.element = make("div", { class: "strip", id: `strip-${name}` },
      make("p", {}, `${spec.title} `, this.word), make("div", { class: "band" }, this.svg));
  }

  draw(samples, from, to) {
    const now = samples.length ? this.spec.of(samples[samples.length - 1]) : undefined;
    this.word.textContent = now ?? "unknown";
    this.word.className = this.look(now?.toString(), 0);
    const { width, height } = this.svg.getBoundingClientRect();
    const em = emOf(this.svg);
    const x = (t) => width * (Math.max(t, from) - from) / (to - from);
    const spans = segments(samples, this.spec.of, to).filter((s) => s.to > from);
    this.svg.setAttribute("aria-label", `${this.spec.title} over time: ` +
      spans.slice(-6).map((s) => `${s.word ?? "unknown"} from ${seconds.format(s.from)}`).join(", "));
    this.svg.replaceChildren(...spans.flatMap((s, i) => this.segment(s, i, { x, em, height })));
  }

  // segment draws one span. A worse state is thicker, so that a person recognises it without colour.
  segment({ word, from, to }, i, { x, em, height }) {
    const look = this.look(word, i);
    const size = height * ({ poor: 1, warn: 0.85 }[look] ?? 0.68);
    const [left, width] = [x(from), Math.max(1, x(to) - x(from))];
    const parts = [shape("rect", { class: width < 4 ? `${look} thin` : look, x: left, y: (height - size) / 2, width, height: size },
      shape("title", {}, `${word ?? "unknown"}, ${seconds.format(from)} to ${seconds.format(to)}`))];
    const text = word ?? "unknown";
    if (width > em * (0.6 * text.length + 0.8)) {
      parts.push(shape("text", { class: look, x: left + 0.5 * em, y: height / 2 + 0.35 * em }, text));
    }
    return parts;
  }

  look(word, i) {
    if (word === undefined) return "unknown";
    return looks[word] ?? (i % 2 ? "other" : "plain");
  }
}

// TimeAxis is the common axis below the strips.
class TimeAxis {
  constructor() {
    this.svg = shape("svg", { "aria-hidden": "true" });
    this.element = make("div", { class: "strip axis" }, make("p"), make("div", { class: "band" }, this.svg));
  }

  draw(_, from, to) {
    const { width } = this.svg.getBoundingClientRect();
    this.svg.replaceChildren();
    drawTimes(this.svg, (t) => width * (t - from) / (to - from), { from, to, left: 0, right: width, bottom: 0, em: emOf(this.svg) });
  }
}

const mostChanges = 12;

// changes returns the newest changes of the states of specs, newest first.
function changes(samples, specs) {
  const known = new Map();
  const all = [];
  samples.forEach((s, i) => {
    const silent = i ? s.at - samples[i - 1].at : 0;
    if (silent > gap) all.push({ at: s.at, text: `no samples for ${duration(silent / 1000)}`, look: "unknown" });
    for (const spec of specs) {
      let word = spec.of(s)?.toString();
      if (word === undefined) continue;
      word = spec.merged?.[word] ?? word;
      if (known.has(spec) && known.get(spec) !== word) all.push({ at: s.at, text: `${spec.title}: ${word}`, look: looks[word] ?? "plain" });
      known.set(spec, word);
    }
  });
  return all.slice(-mostChanges).reverse();
}
