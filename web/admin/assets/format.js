"use strict";
// How the dashboard writes figures: numbers in English, times in the zone of the viewer.

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const brief = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const zone = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const minutes = new Intl.DateTimeFormat("en", zone);
const seconds = new Intl.DateTimeFormat("en", { ...zone, second: "2-digit" });

function count(v) {
  return v < 1e7 ? grouped.format(v) : brief.format(v);
}

function perSecond(v) {
  return v > 0 && v < 10 ? v.toFixed(1) : count(v);
}

function percent(part) {
  return `${(100 * part).toFixed(part < 0.0995 && part > 0 ? 1 : 0)} %`;
}

// duration writes seconds in the two units that matter.
function duration(v) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = Math.max(0, units.findIndex(([, size]) => v >= size));
  if (v < 1) return "0 s";
  return units.slice(first, first + 2).map(([name, size], i) => {
    const n = Math.floor(i ? (v % units[first][1]) / size : v / size);
    return i && !n ? "" : `${grouped.format(n)} ${name}`;
  }).join(" ").trim();
}

function latency(v) {
  if (v < 0.001) return `${Math.round(v * 1e6)} µs`;
  if (v < 1) return `${(v * 1e3).toFixed(v < 0.00995 ? 1 : 0)} ms`;
  return `${v.toFixed(1)} s`;
}

// Without the zero that a value has, for the ticks of an axis.
function tick(format) {
  return (v) => format(v).replace(/\.0(?=\D|$)/, "");
}
