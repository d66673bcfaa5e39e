// Text and elements for what comes from outside: anything may be missing, of another type, or far too long.

// Whatever goes wrong is said on the page, where its reader sees it; the same only once.
const complaints = new Set();
addEventListener('error', event => complain(event.message));
addEventListener('unhandledrejection', event => complain(String(event.reason)));
addEventListener('securitypolicyviolation', event => complain('blocked: ' + event.violatedDirective));
function complain(message) {
  if (complaints.has(message) || complaints.size >= 20) return;
  complaints.add(message);
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
const wordsOf = value => clip(words(text(value)));

// Sums where at least one is known; what is missing altogether stays missing.
function total(values) {
  const there = values.filter(known);
  return there.length ? there.reduce((sum, value) => sum + value, 0) : null;
}

// The wall clock is the reader's own: the planner counts seconds since it started.
const wall = {offset: null, changes: 0};
function setWall(now) {
  const offset = Date.now() / 1000 - now;
  if (wall.offset !== null && Math.abs(offset - wall.offset) <= 2) return;
  wall.offset = offset;
  ++wall.changes;  // times that are shown already are wrong now: another planner, or another clock
}
const onWall = at => wall.offset === null ? at : at + wall.offset;
const two = part => String(part).padStart(2, '0');
function timeOfDay(at, withSeconds = true) {
  if (!known(at)) return NOTHING;
  const date = new Date(onWall(at) * 1000);
  return two(date.getHours()) + ':' + two(date.getMinutes()) + (withSeconds ? ':' + two(date.getSeconds()) : '');
}
const age = value => known(value) ? seconds(value < 60 ? Math.max(0, Math.round(value)) : value) : NOTHING;
const figure = value => value === 0 ? '0' : quantity(value);
const limitOf = value => known(value) ? seconds(value / 1000) : NOTHING;  // of milliseconds

// How long ago, in one unit: what counts is the order of magnitude.
function ago(value) {
  if (!known(value)) return '';
  const [most, unit] = [[60, 's'], [3600, 'min'], [86400, 'h'], [Infinity, 'd']].find(([below]) => value < below);
  const size = {s: 1, min: 60, h: 3600, d: 86400}[unit];
  return Math.max(0, Math.floor(value / size)) + SPACE + unit + ' ago';
}

const byId = id => document.getElementById(id);

// Writes only what changed, so that selections and readers of the screen are left alone.
function say(element, value) {
  if (element.textContent !== value) element.textContent = value;
}
function mark(element, name, value) {
  if (value === null || value === false || value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// How near a figure is to its limit. The word goes with the colour, for those who do not see it.
const TONES = {good: 'within', near: 'near the limit', over: 'over'};
function toneOf(value, limit) {
  if (!known(value) || !known(limit) || limit <= 0) return null;
  return value > limit ? 'over' : value > 0.8 * limit ? 'near' : 'good';
}

// The browser may keep nothing for us: then the choice lasts as long as the page.
const memory = {
  get(key) {
    try { return localStorage.getItem(key); } catch { return null; }
  },
  set(key, value) {
    try { localStorage.setItem(key, value); } catch { /* the page works without */ }
  },
};
