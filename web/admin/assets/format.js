"use strict";
// This file formats the values of the dashboard: numbers in English, times in UTC as
// in the log. duration and perSecond return the same text as package internal/human.

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const brief = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const zone = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: "UTC" };
const minutes = new Intl.DateTimeFormat("en", zone);
const seconds = new Intl.DateTimeFormat("en", { ...zone, second: "2-digit" });

function count(v) {
  return v < 1e7 ? grouped.format(v) : brief.format(v);
}

function perSecond(v) {
  const tenths = Math.round(10 * v);
  return `${tenths < 100 ? tenths / 10 : count(v)}/s`;
}

function percent(part) {
  return `${(100 * part).toFixed(part < 0.0995 && part > 0 ? 1 : 0)} %`;
}

// fillLevel formats the fill level of the pool like the server.
function fillLevel(part) {
  return `${(100 * part).toFixed(1)} %`;
}

const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const year = 365 * 86400;

// duration formats a number of seconds in its two largest units.
function duration(v) {
  const tenths = Math.round(10 * v);
  if (tenths < 600) return `${tenths / 10} s`;
  if (v >= 2 * year) return `${grouped.format(Math.floor(v / year))} years`;
  const left = Math.round(v);
  const first = units.findIndex(([, size]) => left >= size);
  const [[name, size], [nextName, nextSize]] = units.slice(first);
  const next = Math.floor((left % size) / nextSize);
  return `${grouped.format(Math.floor(left / size))} ${name}` + (next ? ` ${next} ${nextName}` : "");
}

function latency(v) {
  if (v < 0.001) return `${Math.round(v * 1e6)} µs`;
  if (v < 1) return `${(v * 1e3).toFixed(v < 0.00995 ? 1 : 0)} ms`;
  return `${v.toFixed(1)} s`;
}

// tick returns a format for the labels of an axis, which have no trailing ".0".
function tick(format) {
  return (v) => format(v).replace(/\.0(?=\D|$)/, "");
}
