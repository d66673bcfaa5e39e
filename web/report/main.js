// The state of the page and its updates.

// `rivals` are switched on beside the policy that is looked at, in every chart and card.
const chosen = {policy: report.results[0] ?? null, rivals: new Set(), span: null, moment: null};
const byId = id => document.getElementById(id);
const find = label => report.results.find(result => result.label === label) ?? null;

// ---- the chosen policy -----------------------------------------------------------------------------------------------

function renderChips() {
  byId('chips').replaceChildren(...report.results.map(result => make('label', {'--colour': colourOf(result)},
    make('input', {type: 'radio', name: 'policy', checked: result === chosen.policy, onchange: () => choose(result)}),
    dot(result), result.label)));
  byId('compare').replaceChildren(...report.results.filter(result => result !== chosen.policy).map(result =>
    make('label', {'--colour': colourOf(result)},
      make('input', {type: 'checkbox', checked: chosen.rivals.has(result), onchange: () => compare(result)}),
      dot(result), result.label)));
  byId('compare-with').hidden = report.results.length < 2;
}

// Prompt tokens cost little: two digits that count.
function perMillion(result, kind) {
  const value = result.gpu_usd_per_1m_tokens?.[kind];
  return known(value) ? (value < .995 ? String(Number(value.toPrecision(2))) : quantity(value)) + SPACE + 'USD' : NOTHING;
}

// [name, value, note, the rival's value]
function metrics(r) {
  const slowest = (summary, limit) =>
    `p50 ${milliseconds(summary.p50)} · p99 ${milliseconds(summary.p99)} · limit ${seconds(limit / 1000)}`;
  return [
    ['SLO attainment', share(r.slo_attainment), `TTFT met by ${share(r.ttft_attainment)}, ITL by ${share(r.itl_attainment)}`],
    ['TTFT p95', milliseconds(r.ttft_ms.p95), slowest(r.ttft_ms, slo.ttft_ms)],
    ['ITL p95', milliseconds(r.itl_ms.p95), slowest(r.itl_ms, slo.itl_ms)],
    ['GPU-hours', quantity(r.gpu_hours), `${quantity(r.mean_replicas)} replicas on average, ${r.peak_replicas} at most; GPU cost ${quantity(r.cost)} USD`],
    ['GPU cost per 1M output', perMillion(r, 'output'),
      `input tokens ${perMillion(r, 'input')}; within the SLO alone ${perMillion(r, 'output_at_slo')} and ${perMillion(r, 'input_at_slo')}`],
    ['Goodput', `${quantity(r.goodput_rps)}/s`, `of ${quantity(r.requests / r.duration_s)} requests/s; ${count(r.failed)} failed`],
    ['Decisions', count(r.scaling_actions), `${count(r.direction_changes)} ${r.direction_changes === 1 ? 'reversal' : 'reversals'} of direction`],
    ['Cache hits', share(r.prefix_hit_ratio), `of prompt tokens; ${count(r.preemptions)} preemptions`],
  ];
}

function renderCards() {
  if (!chosen.policy) return byId('cards').replaceChildren();
  const rivals = rivalsInOrder().map(result => [result, metrics(result)]);
  byId('cards').replaceChildren(...metrics(chosen.policy).map(([name, value, note], i) =>
    make('div', {class: 'metric'}, make('p', {class: 'name'}, name), make('p', {class: 'value'}, value),
      make('p', {class: 'note'}, note),
      ...rivals.map(([result, values]) => make('p', {class: 'rival'}, dot(result), make('span', {}, result.label),
        make('b', {}, values[i][1]))))));
}

function renderDecisionFilter() {
  const all = report.results.map(result =>
    make('option', {value: result.label, selected: result === filter.policy}, result.label));
  byId('decision-policy').replaceChildren(make('option', {value: '', selected: !filter.policy}, 'all'), ...all);
  renderReasons();
}

function renderAll() {
  renderSummary();
  renderChips();
  renderCards();
  renderDecisionFilter();
  renderDecisions();
  renderHeat();
  renderTargets();
  if (chosen.policy) renderSegments();
  drawTrade();
  drawTime();
}

// The choice is kept in the address, so that a link shows what its sender saw.
function rememberChoice() {
  const link = new URLSearchParams({policy: chosen.policy.label});
  rivalsInOrder().forEach(result => link.append('compare', result.label));
  try {
    history.replaceState(null, '', '#' + link);
  } catch {  // some browsers refuse it for files; the link is then not kept
  }
}

function compare(result) {
  if (!chosen.rivals.delete(result)) chosen.rivals.add(result);
  renderCards();
  drawTrade();
  drawTime();
  rememberChoice();
}

function choose(policy) {
  const focus = document.activeElement?.closest('#chips, #summary')?.id;
  if (policy !== chosen.policy) chosen.moment = null;
  chosen.policy = policy;
  chosen.rivals.delete(policy);
  Object.assign(filter, {policy, rows: PAGE});
  renderAll();
  // The control that was used has been made anew: the keyboard stays on it.
  if (focus === 'chips') byId('chips').querySelector(':checked').focus({preventScroll: true});
  if (focus === 'summary') document.querySelector('#summary .chosen .pick button, #summary .chosen button').focus({preventScroll: true});
  rememberChoice();
}

// A moment of a run: a line through all charts over time, and its row in the table.
function showMoment(policy, atSeconds) {
  if (policy !== chosen.policy) choose(policy);
  chosen.moment = chosen.moment === atSeconds ? null : atSeconds;
  renderDecisions();
  drawTime();
  if (chosen.moment != null && document.activeElement !== document.body) byId('chart-replicas').scrollIntoView({block: 'center'});
}

function zoom(span) {
  chosen.span = span;
  byId('whole').hidden = !span;
  drawTime();
}

// ---- theme and paper -------------------------------------------------------------------------------------------------

const systemTheme = matchMedia('(prefers-color-scheme: dark)');
const remembered = {  // where the browser lets a file remember anything
  get() { try { return localStorage.getItem('penstock-theme'); } catch { return null; } },
  set(name) { try { localStorage.setItem('penstock-theme', name); } catch { /* then it holds for this visit */ } },
};

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  byId('theme').textContent = name === 'dark' ? 'Light' : 'Dark';
  byId('theme').setAttribute('aria-label', `switch to the ${name === 'dark' ? 'light' : 'dark'} theme`);
}

function listen() {
  byId('theme').addEventListener('click', () => {
    setTheme(themeName() === 'dark' ? 'light' : 'dark');
    remembered.set(themeName());
    renderAll();
  });
  systemTheme.addEventListener('change', () => {
    if (remembered.get()) return;
    setTheme(systemTheme.matches ? 'dark' : 'light');
    renderAll();
  });
  byId('whole').addEventListener('click', () => zoom(null));
  byId('decision-policy').addEventListener('change', event => {
    Object.assign(filter, {policy: find(event.target.value), rows: PAGE});
    renderReasons();
    renderDecisions();
  });
  const filters = {'decision-reason': ['change', 'reason'], 'decision-search': ['input', 'search']};
  for (const [id, [event, name]] of Object.entries(filters))
    byId(id).addEventListener(event, () => {
      Object.assign(filter, {[name]: byId(id).value, rows: PAGE});
      renderDecisions();
    });
  byId('decision-more').addEventListener('click', () => {
    filter.rows += PAGE;
    renderDecisions();
  });
  byId('copy').addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(report.options.command);
      byId('copy').textContent = 'Copied';
    } catch {  // not allowed here: select it for the reader
      getSelection().selectAllChildren(byId('command'));
    }
  });
  let wide = !narrow();
  addEventListener('resize', () => {
    if (wide === !narrow()) return;
    wide = !narrow();
    drawTrade();
    drawTime();
  });
  let before = null;
  addEventListener('beforeprint', () => {
    before = themeName();
    setTheme('light');
    document.documentElement.classList.add('printing');
    renderAll();
  });
  addEventListener('afterprint', () => {
    document.documentElement.classList.remove('printing');
    setTheme(before ?? themeName());
    renderAll();
  });
}

function start() {
  setTheme(remembered.get() ?? (systemTheme.matches ? 'dark' : 'light'));
  const link = new URLSearchParams(location.hash.slice(1));
  chosen.policy = find(link.get('policy')) ?? chosen.policy;
  chosen.rivals = new Set(link.getAll('compare').map(find).filter(result => result && result !== chosen.policy));
  filter.policy = chosen.policy;
  byId('trade-text').textContent = report.frontier.length
    ? 'Up and to the left is better. A policy above the dotted line beats every static fleet with the same GPU-hours. Select a point to see that policy.'
    : 'Up and to the left is better. Select a point to see that policy.';
  renderReplayed();
  renderDeployments();
  listen();
  renderAll();
  document.documentElement.dataset.ready = 'true';
}

start();
