'use strict';
// Numbers in the units people read (the rules of src/report/format.cpp), and safe ways to show names: for all pages.

const NOTHING = '–';
const SPACE = '\u00a0';  // keeps a number and its unit on one line

const known = value => typeof value === 'number' && Number.isFinite(value);
const count = value => known(value) ? Math.round(value).toLocaleString('en-US') : NOTHING;
const digits = value => value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

function share(value) {
  if (!known(value)) return NOTHING;
  if (value > 0 && value < 0.0005) return '<0.1' + SPACE + '%';
  if (value < 1 && value >= 0.9995) return '99.9' + SPACE + '%';
  return (value * 100).toFixed(1) + SPACE + '%';
}

// A goal with all its digits, and one decimal at least. Ten digits leave out the rounding error of the product.
function goalShare(value) {
  if (!known(value)) return NOTHING;
  const percent = String(Number((value * 100).toPrecision(10)));
  return (/[.e]/.test(percent) ? percent : percent + '.0') + SPACE + '%';
}

function milliseconds(value) {
  if (!known(value)) return NOTHING;
  if (value < 999.5) return value.toFixed(digits(value)) + SPACE + 'ms';
  const seconds = value / 1000;
  return (seconds < 99.95 ? seconds.toFixed(digits(seconds)) : count(seconds)) + SPACE + 's';
}

// A limit or a setting, which is round: 50 ms, 2 s, 1 h 30 min.
function seconds(value) {
  if (!known(value)) return NOTHING;
  if (value < 0.9995) return Number((value * 1000).toPrecision(3)) + SPACE + 'ms';
  if (value < 59.95) return Number(value.toPrecision(3)) + SPACE + 's';
  const two = (large, unit, small, smallUnit) =>
    large + SPACE + unit + (small ? ' ' + small + SPACE + smallUnit : '');
  const whole = Math.round(value);
  if (whole < 3600) return two(Math.floor(whole / 60), 'min', whole % 60, 's');
  const minutes = Math.round(whole / 60);
  if (minutes < 1440) return two(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
  const hours = Math.round(whole / 3600);
  return two(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

function quantity(value) {
  if (!known(value)) return NOTHING;
  const size = Math.abs(value);
  for (const [from, divisor, suffix] of [[999.5e6, 1e9, 'G'], [999.5e3, 1e6, 'M'], [9995, 1e3, 'k']])
    if (size >= from) return (value / divisor).toFixed(digits(size / divisor)) + suffix;
  return value.toFixed(digits(size));
}

// Time since the start of the run: 0:04:05, or with days in front.
function clock(value) {
  const whole = Math.floor(value);
  const two = part => String(part).padStart(2, '0');
  const time = Math.floor(whole / 3600) % 24 + ':' + two(Math.floor(whole / 60) % 60) + ':' + two(whole % 60);
  return whole < 86400 ? time : Math.floor(whole / 86400) + SPACE + 'd ' + time;
}

// A sentence whose numbers stay on a line with their units.
const unbroken = sentence => sentence.replace(/(\d) (%|ms|s|min|h|d)(?![a-z])/g, '$1' + SPACE + '$2');

// A stable name as text: slo_at_risk as "SLO at risk".
const nameText = name => String(name).replaceAll('_', ' ').replace(/\b(slo|ttft|itl|tpot|kv|gpu)\b/g, term => term.toUpperCase());

// An element with text for children: names from outside never become markup.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name.startsWith('--')) element.style.setProperty(name, value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child != null));
  return element;
}
