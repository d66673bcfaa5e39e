// Connects the parts. New data is rendered once per frame. Keys and buttons share their actions.

const page = {paused: false, frame: 0, frozen: null};

function schedule() {
  if (!page.frame) page.frame = requestAnimationFrame(() => {
    page.frame = 0;
    show();
  });
}

function show() {
  showConnection();
  if (page.paused || !live.state) return;
  const state = live.state;
  byId('waiting').hidden = true;
  byId('content').hidden = false;
  showHead(state);
  showLack(state);
  showTiles(state, live.points.at(-1));
  showDiagnosis(state);
  showCharts(state);
  showDecisions(state);
  showTables(state);
}

// ---- the head --------------------------------------------------------------------------------------------------------

const CONNECTION_TEXT = {connecting: 'connecting', live: 'live', starting: 'starting', unknown: 'unknown', stale: 'stale', reconnecting: 'reconnecting'};
let announced = null;

// What the planner lacks; null when it has its data, or while replicas start.
const lacks = state => {
  const data = record(record(state).data), name = text(data.state);
  return name && name !== 'known' && name !== 'starting' ? data : null;
};

function showConnection() {
  if (live.isReport) {
    const first = live.history[0] ?? live.points[0];
    mark(byId('connection'), 'data-state', 'report');
    return setText(byId('connection-word'), `${dateAndTime(first?.at_s)} to ${dateAndTime(live.state.now_s)}`);
  }
  const stream = connection(), old = stream.old, data = record(record(live.state).data);
  const name = stream.name !== 'live' ? stream.name : lacks(live.state) ? 'unknown' : data.state === 'starting' ? 'starting' : 'live';
  const aged = known(old) && (name === 'stale' || name === 'reconnecting') ? ` · ${age(old)} old` : '';
  mark(byId('connection'), 'data-state', name);
  setText(byId('connection-word'), CONNECTION_TEXT[name] + aged);
  mark(document.documentElement, 'data-old', name === 'stale' || name === 'reconnecting');
  // Screen readers are informed about changes only.
  if (announced === name) return;
  announced = name;
  setText(byId('announcement'), {
    connecting: 'Connecting to the planner.', starting: 'Connected: the replicas are starting.',
    unknown: 'Connected: the planner has no data, and the state is unknown.', live: 'Connected: the data is live.',
    stale: 'The planner sends no updates: the data is stale.', reconnecting: 'The connection is lost: reconnecting.',
  }[name]);
}

const PHASE_MODES = {act: 'active', observe: 'observe-only', follow: 'follower'};

function modeTitle(state) {
  if (state.mode === 'follow') return state.leader ? `another planner leads: ${clip(state.leader, 100)}` : 'no planner leads yet';
  return state.mode === 'observe' ? 'decides, records the decision, changes nothing' : 'changes the fleet';
}

// A link to each deployment that is planned together with the shown one.
function showDeployments(state) {
  const names = list(state.deployments).map(text).filter(Boolean), place = byId('deployments');
  byId('deployment').hidden = !text(state.deployment);
  const shown = names.length ? names : [text(state.deployment)];
  if (place.dataset.names === shown.join(' ')) return;
  place.dataset.names = shown.join(' ');
  place.replaceChildren(...shown.flatMap((name, index) => {
    const isShown = name === state.deployment || live.isReport;
    const item = document.createElement(isShown ? 'b' : 'a');
    item.textContent = clip(name, 63);
    if (!isShown) item.href = '?deployment=' + encodeURIComponent(name);
    return index ? [' · ', item] : [item];
  }));
  for (const link of byId('links')?.querySelectorAll('a') ?? [])
    if (location.search && !link.getAttribute('href').startsWith('metrics')) link.search = location.search;
}

function showHead(state) {
  const slo = record(state.slo);
  showDeployments(state);
  setText(byId('mode'), PHASE_MODES[state.mode] ?? (clippedName(state.mode) || NOTHING));
  mark(byId('mode'), 'data-mode', text(state.mode));
  mark(byId('mode'), 'title', modeTitle(state));
  setText(byId('policy'), clip(state.policy, 60) || NOTHING);
  const phase = clippedName(state.phase);
  setText(byId('phase'), !phase ? NOTHING : state.mode === 'act' || phase === 'observe' ? phase : phase + ' (recorded only)');
  setText(byId('slo'), `TTFT ${limitOf(slo.ttft_ms)} · ITL ${limitOf(slo.itl_ms)}` + (known(slo.e2e_ms) ? ` · e2e ${limitOf(slo.e2e_ms)}` : ''));
  setText(byId('goal'), known(slo.goal) ? ` · goal ${goalShare(slo.goal)}` : '');
  setText(byId('attainment'), share(slo.attainment));
  mark(byId('attainment'), 'data-tone', !known(slo.attainment) || !known(slo.goal) ? null : slo.attainment >= slo.goal ? 'good' : 'over');
  const guesses = list(state.pools).map(record).filter(pool => pool.uncalibrated === true).map(pool => clip(pool.name, 40));
  byId('engine-model').hidden = guesses.length === 0;
  setText(byId('uncalibrated'), 'default, uncalibrated' + (list(state.pools).length > 1 ? ': ' + guesses.join(', ') : ''));
  setText(byId('up'), age(state.now_s));
  setText(byId('version'), 'Penstock ' + clip(state.version, 40));
}

function showLack(state) {
  const data = lacks(state), place = byId('data-word');
  place.hidden = !data;
  if (data) setText(place, `The state is unknown since ${timeOfDay(data.since_s)}: ${clip(data.text, 300)}.`);
}

const CAUSE_FINE = new Set(['none']);

function showDiagnosis(state) {
  const diagnosis = state.diagnosis ? record(state.diagnosis) : null, cause = text(diagnosis?.cause);
  mark(byId('diagnosis'), 'data-tone', !cause ? null : lacks(state) ? 'over' : CAUSE_FINE.has(cause) ? 'good' : 'near');
  setText(byId('diagnosis-cause'), !cause ? NOTHING : CAUSE_FINE.has(cause) ? 'no problem found' : clippedName(cause));
  setText(byId('diagnosis-words'), diagnosis ? unbroken(clip(diagnosis.text, 800)) : 'No diagnosis yet, or the policy gives none.');
  const settings = diagnosis ? list(diagnosis.settings).map(engineSetting) : [];
  byId('diagnosis-settings').hidden = !settings.length;
  setText(byId('diagnosis-settings'), settings.length ? unbroken(clip(`Engine settings that may help: ${settings.join('; ')}.`, 600)) : '');
}

function engineSetting(setting) {
  const flags = [['vLLM', setting.vllm], ['SGLang', setting.sglang], ['Triton', setting.triton]];
  const evidence = setting.evidence ? `${text(setting.pool)}: ${text(setting.evidence)}; ` : '';
  return `${evidence}${text(setting.advice)} (${flags.filter(([, flag]) => flag).map(([engine, flag]) => `${engine} ${text(flag)}`).join(', ')})`;
}

// ---- actions ---------------------------------------------------------------------------------------------------------

const systemDark = matchMedia('(prefers-color-scheme: dark)');

function showTheme() {
  const chosen = memory.get('penstock-theme');
  const theme = chosen === 'light' || chosen === 'dark' ? chosen : page.theme ?? (systemDark.matches ? 'dark' : 'light');
  document.documentElement.dataset.theme = theme;
  const button = byId('theme');
  if (!button) return;
  setText(button, theme === 'dark' ? 'Light' : 'Dark');
  mark(button, 'aria-label', theme === 'dark' ? 'use the light theme' : 'use the dark theme');
  if (charts.length) recolourCharts();
}

function switchTheme() {
  page.theme = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
  memory.set('penstock-theme', page.theme);
  showTheme();
}

function pause() {
  page.paused = !page.paused;
  page.frozen = page.paused ? live.state : null;
  mark(byId('pause'), 'aria-pressed', page.paused);
  setText(byId('pause-word'), page.paused ? 'Resume' : 'Pause');
  byId('paused').hidden = !page.paused;
  if (page.paused) setText(byId('paused-since'), timeOfDay(live.state?.now_s));
  schedule();
}

function showWindow(minutes) {
  shownMinutes = minutes;
  for (const button of document.querySelectorAll('[data-minutes]'))
    mark(button, 'aria-pressed', Number(button.dataset.minutes) === minutes);
  const state = page.frozen ?? live.state;
  if (state) showCharts(state);
}

function chooseWindow(minutes) {
  memory.set('penstock-window', minutes);
  showWindow(minutes);
}

function chooseChanges(only) {
  decisions.changesOnly = byId('changes-only').checked = only;
  filterDecisions();
}

function help() {
  const dialog = byId('help');
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

const SHORT_CUTS = {
  '?': help, p: pause, t: switchTheme, c: () => chooseChanges(!decisions.changesOnly),
  '/': () => byId('filter').focus(),
  d: () => byId('decision-list').querySelector('li:not([hidden]) summary')?.focus(),
  1: () => chooseWindow(5), 2: () => chooseWindow(15), 3: () => chooseWindow(60), 4: () => chooseWindow(1440),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const typing = event.target.matches?.('input:not([type=checkbox]), textarea, select');
  if (event.key === 'Escape' && event.target === byId('filter')) {
    byId('filter').value = '';
    byId('filter').dispatchEvent(new Event('input'));
    return byId('filter').blur();
  }
  if (typing || (byId('help').open && event.key !== '?')) return;
  const act = SHORT_CUTS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

// A report shows its data once, and all of it at first. All times are those of the browser's time zone.
function showReport() {
  const began = live.history[0]?.at_s ?? live.points[0]?.at_s ?? live.state.now_s, length_s = live.state.now_s - began;
  document.title = 'Penstock report';
  setText(byId('kind'), 'report');
  for (const id of ['pause', 'links']) byId(id).hidden = true;
  document.querySelector('[data-minutes="10080"]').hidden = length_s <= 86400;
  showWindow(length_s > 86400 ? 10080 : length_s > 3600 ? 1440 : 60);
  schedule();
}

function start() {
  showTheme();
  buildTiles(byId('tiles'));
  buildTables();
  const minutes = Number(memory.get('penstock-window'));
  showWindow(document.querySelector(`[data-minutes="${minutes}"]:not([hidden])`) ? minutes : 15);
  systemDark.addEventListener('change', showTheme);
  addEventListener('keydown', onKey);
  byId('theme').addEventListener('click', switchTheme);
  byId('pause').addEventListener('click', pause);
  byId('resume').addEventListener('click', pause);
  byId('keys').addEventListener('click', help);
  byId('help-close').addEventListener('click', help);
  byId('changes-only').addEventListener('change', event => chooseChanges(event.target.checked));
  byId('filter').addEventListener('input', event => {
    decisions.filter = event.target.value.trim().toLowerCase();
    filterDecisions();
  });
  for (const button of document.querySelectorAll('[data-minutes]'))
    button.addEventListener('click', () => chooseWindow(Number(button.dataset.minutes)));
  if (takeReport(byId('report'))) return showReport();
  setInterval(showConnection, 1000);
  openFeed(schedule, showConnection);
}

showTheme();  // The theme is set before the first frame, so that the page does not flash.
if (document.readyState === 'loading') addEventListener('DOMContentLoaded', start, {once: true});
else start();
