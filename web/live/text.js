// Text and elements for external values, which may be missing, of another type, or too long.

// Errors are shown on the page, each once.
const reported = new Set();
addEventListener('error', event => reportError(event.message));
addEventListener('unhandledrejection', event => reportError(String(event.reason)));
addEventListener('securitypolicyviolation', event => reportError('blocked: ' + event.violatedDirective));
function reportError(message) {
  if (reported.has(message) || reported.size >= 20) return;
  reported.add(message);
  const show = () => {
    const place = document.getElementById('errors');
    place.hidden = false;
    place.append(make('p', {}, 'A part of this page failed: ' + clip(message, 300)));
  };
  if (document.getElementById('errors')) show();
  else addEventListener('DOMContentLoaded', show, {once: true});
}

const CLIP = 120;

const list = value => Array.isArray(value) ? value : [];
const record = value => value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {};
const text = value => typeof value === 'string' ? value : known(value) ? String(value) : '';
const clip = (value, most = CLIP) => {
  const whole = text(value);
  return whole.length > most ? whole.slice(0, most - 1) + '…' : whole;
};
const clippedName = value => clip(nameText(text(value)));

// The sum of the known values; null when all are unknown.
function total(values) {
  const there = values.filter(known);
  return there.length ? there.reduce((sum, value) => sum + value, 0) : null;
}

// Times of day use the browser's clock, because the planner counts seconds since its start.
const wall = {offset: null, changes: 0};
function setWall(now, unix_s = Date.now() / 1000) {
  const offset = unix_s - now;
  if (wall.offset !== null && Math.abs(offset - wall.offset) <= 2) return;
  wall.offset = offset;
  ++wall.changes;  // Displayed times must be rendered again, because the planner or the clock changed.
}
const onWall = at => wall.offset === null ? at : at + wall.offset;
const two = part => String(part).padStart(2, '0');
function timeOfDay(at, withSeconds = true) {
  if (!known(at)) return NOTHING;
  const date = new Date(onWall(at) * 1000);
  return two(date.getHours()) + ':' + two(date.getMinutes()) + (withSeconds ? ':' + two(date.getSeconds()) : '');
}
const dateAndTime = at => !known(at) ? NOTHING : new Date(onWall(at) * 1000).toLocaleDateString('en-CA') + ' ' + timeOfDay(at, false);
const age = value => known(value) ? seconds(value < 60 ? Math.max(0, Math.round(value)) : value) : NOTHING;
const figure = value => value === 0 ? '0' : quantity(value);
const usd = value => value > 0 && value < 0.0995 ? String(Number(value.toPrecision(2))) : figure(value);
const limitOf = value => known(value) ? seconds(value / 1000) : NOTHING;  // `value` is in milliseconds.

// Formats an age in one unit.
function ago(value) {
  if (!known(value)) return '';
  const [most, unit] = [[60, 's'], [3600, 'min'], [86400, 'h'], [Infinity, 'd']].find(([below]) => value < below);
  const size = {s: 1, min: 60, h: 3600, d: 86400}[unit];
  return Math.max(0, Math.floor(value / size)) + SPACE + unit + ' ago';
}

const byId = id => document.getElementById(id);

// Writes only changes, so that selections and screen readers are not disturbed.
function setText(element, value) {
  if (element.textContent !== value) element.textContent = value;
}
function mark(element, name, value) {
  if (value === null || value === false || value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// States how near a value is to its limit, in words beside the colour.
const TONES = {good: 'within', near: 'near the limit', over: 'over'};
function toneOf(value, limit) {
  if (!known(value) || !known(limit) || limit <= 0) return null;
  return value > limit ? 'over' : value > 0.8 * limit ? 'near' : 'good';
}

// Without storage in the browser the choice lasts as long as the page.
const memory = {
  get(key) {
    try { return localStorage.getItem(key); } catch { return null; }
  },
  set(key, value) {
    try { localStorage.setItem(key, value); } catch { /* the page works without */ }
  },
};
