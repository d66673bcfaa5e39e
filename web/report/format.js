'use strict';
// The data, numbers in the units people read (the rules of src/report/format.cpp), and safe ways to show names.

const report = JSON.parse(document.getElementById('report-data').textContent);
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

const words = name => String(name).replaceAll('_', ' ');

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

// Plotly reads tags and entities in its labels.
const plain = text => String(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

function wrapped(text, width = 58) {
  const lines = [''];
  for (const word of String(text).split(' ')) {
    if (lines.at(-1) && lines.at(-1).length + word.length >= width) lines.push('');
    lines[lines.length - 1] += (lines.at(-1) ? ' ' : '') + word;
  }
  return lines.map(plain).join('<br>');
}

// One colour and one symbol per policy, everywhere. Hues in the order of Okabe and Ito, with steps of lightness between
// neighbours, so that they differ without red and green; a symbol or a label always says the same.
const COLOURS = {
  light: ['#0067a8', '#c8540a', '#00845f', '#a8488a', '#97700a', '#5346a6', '#117686', '#8c2a55', '#66701a', '#8a5a33'],
  dark: ['#5fb0ee', '#f2925a', '#45c79f', '#e08fc8', '#dfb548', '#a9a0f5', '#58bfcc', '#dd7ba6', '#b4c158', '#cfa078'],
};
const STATIC_COLOUR = {light: '#6a7280', dark: '#a2abb8'};
const SYMBOLS = ['circle', 'square', 'diamond', 'triangle-up', 'star', 'hexagon', 'pentagon', 'triangle-down', 'cross', 'x'];

const themeName = () => document.documentElement.dataset.theme;
const placeOf = new Map(report.results.filter(r => r.policy !== 'static').map((result, place) => [result, place]));

function colourOf(result) {
  const colours = COLOURS[themeName()];
  return placeOf.has(result) ? colours[placeOf.get(result) % colours.length] : STATIC_COLOUR[themeName()];
}
const symbolOf = result =>
  placeOf.has(result) ? SYMBOLS[placeOf.get(result) % SYMBOLS.length] : 'circle-open';
