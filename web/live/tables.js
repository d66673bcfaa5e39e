// Tables with rows by key: each update writes only the cells that changed.

const ROWS_MAX = 300;

// `columns` has entries [heading, row => {text, tone, meter, title}, {left, title}]. The first column is the row heading.
function makeTable(place, caption, columns, empty) {
  const head = make('tr', {}, ...columns.map(([title, , more = {}], index) =>
    make('th', {scope: 'col', class: more.left || index === 0 ? 'left' : '', title: more.title}, title)));
  const body = make('tbody');
  const none = make('p', {class: 'none'}, empty);
  const over = make('p', {class: 'none'});
  const box = make('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption},
    make('table', {}, make('caption', {class: 'unseen'}, caption), make('thead', {}, head), body));
  byId(place).append(box, none, over);
  const rows = new Map();

  const cellOf = ([, , more = {}], index) => {
    const content = make('bdi'), bar = make('i'), meter = make('span', {class: 'meter', 'aria-hidden': 'true'}, bar);
    const cell = make(index === 0 ? 'th' : 'td', {scope: index === 0 ? 'row' : null, class: more.left || index === 0 ? 'left' : ''}, meter, content);
    return {cell, content, meter, bar};
  };
  return {
    show(items, key) {
      const seen = new Set();
      let before = body.firstElementChild;
      for (const item of items.slice(0, ROWS_MAX)) {
        let id = key(item);
        while (seen.has(id)) id += '\u0000';
        seen.add(id);
        let row = rows.get(id);
        if (!row) {
          const cells = columns.map(cellOf);
          row = {element: make('tr', {}, ...cells.map(each => each.cell)), cells};
          rows.set(id, row);
        }
        if (row.element === before) before = before.nextElementSibling;
        else body.insertBefore(row.element, before);
        columns.forEach(([, shown], index) => showCell(row.cells[index], shown(item)));
      }
      for (const [id, row] of rows)
        if (!seen.has(id)) {
          row.element.remove();
          rows.delete(id);
        }
      box.hidden = items.length === 0;
      none.hidden = items.length > 0;
      over.hidden = items.length <= ROWS_MAX;
      setText(over, `and ${count(items.length - ROWS_MAX)} more`);
    },
    setEmptyText: value => setText(none, value),
  };
}

function showCell({cell, content, meter, bar}, shown) {
  const one = typeof shown === 'string' ? {text: shown} : shown;
  setText(content, one.text === '' ? NOTHING : one.text);
  mark(cell, 'data-tone', one.tone ?? null);
  mark(cell, 'title', one.title ?? null);
  meter.hidden = !known(one.meter);
  if (known(one.meter)) bar.style.setProperty('width', Math.min(100, Math.max(0, one.meter * 100)) + '%');
}

const named = value => ({text: clip(value, 60), title: text(value).length > 60 ? clip(value, 300) : null});

// ---- replicas --------------------------------------------------------------------------------------------------------

// Joins the planner's and the gateway's data by replica. Replicas that only the gateway knows are last.
function replicaRows(state) {
  const others = new Map(list(record(state.gateway).replicas).map(record).map(replica => [text(replica.id), replica]));
  const problems = new Map();
  for (const problem of list(record(state.gateway).problems).map(record)) {
    const id = text(problem.replica);
    problems.set(id, [...(problems.get(id) ?? []), problem]);
    // A replica whose model is not known is not among those of the gateway.
    if (!others.has(id)) others.set(id, {id, url: problem.url});
  }
  const rows = [];
  for (const pool of list(state.pools).map(record))
    for (const replica of list(pool.replicas).map(record)) {
      const id = text(replica.name);
      rows.push({id, pool: pool.name, stage: replica.stage, switch_to: replica.switch_to, url: replica.url, age_s: replica.age_s,
                 sample: replica.sample ? record(replica.sample) : null, gateway: others.get(id) ?? null});
      others.delete(id);
    }
  for (const [id, replica] of others)
    rows.push({id, pool: replica.pool, stage: replica.phase, url: replica.url, age_s: null, sample: null, gateway: replica});
  for (const row of rows) row.problems = problems.get(row.id) ?? [];
  return rows;
}

const STAGE_TONES = {serving: 'good', ready: 'good', starting: 'near', warming: 'near', switching: 'near', requested: 'near', failed: 'over', crashed: 'over'};
const SAMPLE_OLD_S = 10;

const REPLICA_COLUMNS = [
  ['replica', row => ({...named(row.id), title: clip(row.url, 300) || null})],
  ['pool', row => named(row.pool), {left: true}],
  ['stage', row => stageOf(row), {left: true}],
  ['waiting', row => sampled(row, 'queued'), {title: 'requests in the engine\'s queue'}],
  ['running', row => sampled(row, 'running'), {title: 'sequences in the engine\'s batch'}],
  ['KV used', row => {
    const value = row.sample?.kv_usage ?? row.gateway?.kv_usage;
    return {text: share(value), meter: value, tone: known(value) && value > 0.9 ? 'over' : null};
  }],
  ['in flight', row => count(row.gateway?.open_requests), {title: 'requests that the gateway has sent to it and that have not ended'}],
  ['gateway', row => gatewayState(row.gateway), {left: true, title: 'whether the gateway routes requests to it'}],
  ['problem', row => problemState(row.problems), {left: true, title: 'why the gateway does not use the replica, or reads no metrics of it'}],
  ['failed', row => count(row.gateway?.failures_total), {title: 'failed requests, counted by the gateway'}],
  ['in stage', row => age(row.age_s), {title: 'time since it entered this stage'}],
];

// A replica that drains in order to take another role says which pool it goes to.
function stageOf(row) {
  const to = clip(row.switch_to, 40);
  return {text: clippedName(row.stage) + (to ? ' → ' + to : ''), tone: STAGE_TONES[text(row.stage)] ?? null,
          title: to ? `it takes the role of the pool ${to} once its last request has ended` : null};
}

function sampled(row, key) {
  const old = row.sample && row.sample.age_s > SAMPLE_OLD_S;
  return {text: count(row.sample?.[key]), tone: old ? 'near' : null,
          title: old ? `last update ${age(row.sample.age_s)} ago` : null};
}

function gatewayState(gateway) {
  if (!gateway) return NOTHING;
  if (gateway.breaker_open)
    return {text: 'ejected', tone: 'over', title: text(gateway.ejection_cause).replaceAll('_', ' ')};
  if (gateway.healthy === false) return {text: 'unhealthy', tone: 'over'};
  return gateway.eligible ? {text: 'receives requests', tone: 'good'} : 'no requests';
}

function problemState(problems) {
  if (problems.length === 0) return NOTHING;
  const words = problems.map(problem => clippedName(problem.code) + (problem.text ? ': ' + clip(problem.text, 300) : '')).join(' · ');
  const used = problems.every(problem => problem.code === 'metrics_unavailable');
  return {text: clip(words, 90), title: words, tone: used ? 'near' : 'over'};
}

// ---- segments --------------------------------------------------------------------------------------------------------

const QUANTILES = ['p50', 'p95', 'p99'];
const latencyColumns = (key, title, limit) => QUANTILES.map(quantile => [
  `${title} ${quantile}`, row => {
    const value = record(row[key])[quantile + '_ms'], over = known(value) && known(row.slo[limit]) && value > row.slo[limit];
    return {text: milliseconds(value) + (over ? ' ▲' : ''), tone: over ? 'over' : null, title: over ? 'exceeds the SLO' : null};
  }]);

const SEGMENT_COLUMNS = [
  ['segment', row => ({...named(row.label), title: clip(row.label, 300)})],
  ['by', row => ({text: [clippedName(row.dimension), clip(row.model, 40)].filter(Boolean).join(' · ')}), {left: true}],
  ['first tokens', row => count(record(row.ttft).count)],
  ...latencyColumns('ttft', 'TTFT', 'ttft_ms'),
  ...latencyColumns('itl', 'ITL', 'itl_ms'),
];

// Uses the planner's segments, or the gateway's while the planner has none.
function segmentRows(state) {
  const own = list(state.segments), slo = record(state.slo);
  return (own.length ? own : list(record(state.gateway).latencies)).map(segment => ({...record(segment), slo}));
}

// ---- tenants ---------------------------------------------------------------------------------------------------------

// One row for each tenant and model with usage, and one for each tenant without usage.
function tenantRows(state) {
  const gateway = record(state.gateway);
  const tenants = new Map(list(gateway.tenants).map(record).map(tenant => [text(tenant.name), tenant]));
  const rows = list(gateway.usage).map(record).map(usage => ({usage, name: text(usage.tenant), tenant: tenants.get(text(usage.tenant)) ?? {}}));
  const paid = new Set(rows.map(row => row.name));
  for (const [name, tenant] of tenants) if (!paid.has(name)) rows.push({usage: {}, name, tenant});
  return rows;
}

const amount = value => known(value) ? (Number.isInteger(value) && value < 9995 ? count(value) : quantity(value)) : NOTHING;
const TENANT_COLUMNS = [
  ['tenant', row => named(row.name)],
  ['model', row => named(row.usage.model), {left: true}],
  ['succeeded', row => amount(row.usage.completed), {title: 'requests with a complete answer'}],
  ['in flight', row => count(row.tenant.running), {title: 'over all models of the tenant'}],
  ['waiting', row => count(row.tenant.waiting), {title: 'over all models of the tenant'}],
  ['refused', row => ({text: amount(row.usage.refused), tone: row.usage.refused > 0 ? 'near' : null}),
   {title: 'not admitted'}],
  ['rejected', row => ({text: amount(row.usage.rejected), tone: row.usage.rejected > 0 ? 'near' : null}),
   {title: 'a replica rejected them as invalid'}],
  ['cancelled', row => amount(row.usage.cancelled), {title: 'the client disconnected; tokens until then count'}],
  ['failed', row => {
    const value = total([row.usage.failed, row.usage.truncated, row.usage.timed_out]);
    return {text: amount(value), tone: value > 0 ? 'over' : null};
  }, {title: 'failed, truncated or timed out'}],
  ['tokens in', row => amount(row.usage.prompt_tokens)],
  ['cached', row => ({text: amount(row.usage.cached_tokens),
                      meter: row.usage.prompt_tokens > 0 ? row.usage.cached_tokens / row.usage.prompt_tokens : null})],
  ['tokens out', row => amount(row.usage.output_tokens)],
  ['token cost (USD)', row => usd(row.usage.cost), {title: 'tokens times the token price of the model'}],
  ['budget left', row => row.tenant.budget_available === null ? 'no limit' : amount(row.tenant.budget_available),
   {title: 'tokens, this minute'}],
];

// ---- GPU cost of tokens ----------------------------------------------------------------------------------------------

const costColumn = (title, key, hint) => [title, row => usd(record(row.gpu_usd_per_1m_tokens)[key]), {title: hint}];
const COST_COLUMNS = [
  ['tenant', row => row.tenant === undefined ? 'all' : named(row.tenant)],
  ['model', row => named(row.model), {left: true}],
  ['prompt tokens', row => amount(row.prompt_tokens), {title: 'of completed requests'}],
  ['output tokens', row => amount(row.output_tokens), {title: 'of completed requests'}],
  ['within SLO', row => {
    const all = total([row.prompt_tokens, row.output_tokens]);
    const value = all > 0 ? total([row.prompt_tokens_at_slo, row.output_tokens_at_slo]) / all : null;
    return {text: share(value), meter: value};
  }, {title: 'share of these tokens whose requests missed no SLO'}],
  ['GPU cost', row => usd(row.gpu_cost), {title: 'USD'}],
  costColumn('per 1M prompt', 'input', 'USD per 1M prompt tokens'),
  costColumn('per 1M output', 'output', 'USD per 1M output tokens'),
  costColumn('prompt within SLO', 'input_at_slo', 'USD per 1M prompt tokens, if only tokens within the SLO count'),
  costColumn('output within SLO', 'output_at_slo', 'USD per 1M output tokens, if only tokens within the SLO count'),
];

// The row of all tenants is last where there are several.
function costRows(state) {
  const cost = record(state.gpu_cost), tenants = list(cost.tenants).map(record);
  return tenants.length === 1 ? tenants : tenants.length ? [...tenants, record(cost.all)] : [];
}

// ---- scaling ---------------------------------------------------------------------------------------------------------

// Failures while the fleet changed are highlighted.
const endsBadly = (key, title) => [key.replace('_', ' '), row => ({text: count(row[key]), tone: row[key] > 0 ? 'over' : null}), {title}];
const SCALING_COLUMNS = [
  ['started', row => timeOfDay(row.began_s)],
  ['pool', row => named(row.pool), {left: true}],
  ['replicas', row => known(row.from) && known(row.to) ? `${count(row.from)} → ${count(row.to)}` : NOTHING,
   {left: true, title: 'ready replicas before the change, and the target'}],
  ['duration', row => known(row.settled_s) ? age(row.settled_s - row.began_s) : {text: 'in progress', tone: 'near'}, {left: true}],
  ['succeeded', row => count(row.completed)],
  endsBadly('failed', 'before the first byte of the answer'),
  endsBadly('truncated', 'the answer ended before it was complete'),
  endsBadly('timed_out', 'the time budget expired'),
  ['cancelled', row => count(row.cancelled), {title: 'the client disconnected'}],
];

// ---- together --------------------------------------------------------------------------------------------------------

const tables = {};
function buildTables() {
  tables.replicas = makeTable('replicas', 'Replicas', REPLICA_COLUMNS, 'No replicas.');
  tables.segments = makeTable('segments', 'Latency by segment', SEGMENT_COLUMNS, 'No requests in the last minute.');
  tables.tenants = makeTable('tenants', 'Tenants and token cost', TENANT_COLUMNS, 'The gateway has served no requests yet.');
  tables.cost = makeTable('token-costs', 'GPU cost of tokens', COST_COLUMNS, 'No completed request yet.');
  tables.scaling = makeTable('scaling', 'Scaling', SCALING_COLUMNS, 'No replica has started or stopped yet.');
}

function showTables(state) {
  tables.replicas.show(replicaRows(state), row => row.pool + '/' + clip(row.id, 400));
  tables.segments.setEmptyText(state.gateway ? 'No requests in the last minute.' : 'No data from a gateway.');
  tables.segments.show(segmentRows(state), row => [clip(row.model, 400), clip(row.dimension, 400), clip(row.label, 400)].join('/'));
  tables.tenants.setEmptyText(state.gateway ? 'The gateway has served no requests yet.' : 'No data from a gateway.');
  tables.tenants.show(tenantRows(state), row => clip(row.name, 400) + '/' + clip(row.usage.model, 400));
  setText(byId('token-cost-hint'), costHint(state));
  tables.cost.show(costRows(state), row => row.tenant === undefined ? 'all' : '/' + clip(row.tenant, 400) + '/' + clip(row.model, 400));
  tables.scaling.show(list(state.scaling).map(record), row => clip(row.pool, 400) + '/' + row.began_s);
  showGateway(state);
  showEvents(state);
}

function costHint(state) {
  const cost = record(state.gpu_cost), all = record(cost.all);
  const unknown = all.prompt_tokens > 0 && !known(all.gpu_cost) ? '; unknown, because the policy does not measure the time that prompts take' : '';
  return `USD${known(cost.for_s) ? ', last ' + age(cost.for_s) : ''}${unknown}`;
}

function showGateway(state) {
  const gateway = record(state.gateway), deferred = record(gateway.deferred), silence = gatewayAge();
  const refusals = Object.entries(record(gateway.refusals)).filter(([, value]) => value > 0).slice(0, 40)
    .sort((one, other) => other[1] - one[1]).map(([code, value]) => `${clippedName(code)} ${count(value)}`).join(' · ');
  const warning = !state.gateway ? 'No data from the gateway: requests, tenants and token cost are unknown.'
    : known(silence) && silence > STALE_AFTER_S ? `No update for ${age(silence)}: the last known values are shown.` : '';
  byId('gateway-word').hidden = !warning;
  setText(byId('gateway-word'), warning);
  for (const [id, value] of [['granted', gateway.granted_total], ['refused', gateway.refused_total],
    ['retried', gateway.retried_total], ['clamped', gateway.clamped_total], ['interactive', record(gateway.queue).interactive],
    ['batch', record(gateway.queue).batch], ['tokens', record(gateway.queue).tokens], ['deferred', deferred.requests],
    ['sent-spare', deferred.sent_spare_total], ['sent-due', deferred.sent_due_total], ['missed', deferred.missed_total]])
    setText(byId('gateway-' + id), amount(value));
  const gateways = list(state.gateways).map(record), silent = gateways.filter(each => !each.up);
  byId('gateway-several').hidden = gateways.length < 2;
  setText(byId('gateway-count'), silent.length ? `${count(gateways.length - silent.length)} of ${count(gateways.length)}` : count(gateways.length));
  mark(byId('gateway-count'), 'data-tone', silent.length ? 'over' : null);
  setText(byId('gateway-next-due'), known(deferred.next_due_s) ? age(deferred.next_due_s) : NOTHING);
  for (const row of document.querySelectorAll('.deferral')) row.hidden = !isDeferring(gateway);
  mark(byId('gateway-missed'), 'data-tone', deferred.missed_total > 0 ? 'over' : null);
  setText(byId('gateway-refusals'), refusals || (state.gateway ? 'none' : NOTHING));
}

const shownEvents = {key: null};
function showEvents(state) {
  const events = list(state.events).map(record), key = JSON.stringify([wall.changes, events]);
  byId('event-none').hidden = events.length > 0;
  if (key === shownEvents.key) return;
  shownEvents.key = key;
  byId('event-list').replaceChildren(...events.slice(0, 200).map(event => make('li', {class: event.warning ? 'warning' : ''},
    make('time', {title: known(event.at_s) ? 'planner time ' + clock(event.at_s) : null}, timeOfDay(event.at_s)),
    make('span', {class: 'words'},
      event.warning ? make('b', {class: 'look'}, 'attention ') : null,
      event.pool ? make('span', {class: 'chip pool'}, make('bdi', {}, clip(event.pool, 40))) : null,
      make('bdi', {}, clip(event.text, 600))))));
}
