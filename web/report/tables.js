// The tables: policies, decisions, segments, and what was replayed.

const dot = result => make('span', {class: 'dot', 'aria-hidden': 'true', '--colour': colourOf(result)});

function meter(value, colour) {
  const bar = make('i');
  bar.style.width = Math.max(0, Math.min(1, value)) * 100 + '%';
  return make('span', {class: 'meter', 'aria-hidden': 'true', '--colour': colour}, bar);
}

// ---- policies ------------------------------------------------------------------------------------------------------

const fleet = r => (r.peak_replicas > r.replicas || r.scaling_actions > 0
  ? `${r.replicas} → ${r.peak_replicas}, mean ${quantity(r.mean_replicas)}` : String(r.replicas)) +
  (r.mean_asleep > 0 ? `, and ${quantity(r.mean_asleep)} asleep` : '') + (r.role_switches > 0 ? `, ${count(r.role_switches)} switched` : '');
const overLimit = (value, limit) => known(value) && value > limit ? 'bad' : '';
const slo = report.options.slo;

// [group, heading, explanation, sort key, text, class]; better first on the first click: 1 ascending, -1 descending.
const SUMMARY = [
  ['', 'SLO attainment', 'share of requests that met all limits', r => r.slo_attainment, null, -1],
  ['', 'replicas', 'at the start → maximum, mean', r => r.mean_replicas, fleet, 1],
  ['TTFT', 'p50', 'median time to first token', r => r.ttft_ms.p50, r => milliseconds(r.ttft_ms.p50), 1],
  ['TTFT', 'p95', '95th percentile', r => r.ttft_ms.p95, r => milliseconds(r.ttft_ms.p95), 1,
    r => overLimit(r.ttft_ms.p95, slo.ttft_ms)],
  ['TTFT', 'p99', '99th percentile', r => r.ttft_ms.p99, r => milliseconds(r.ttft_ms.p99), 1,
    r => overLimit(r.ttft_ms.p99, slo.ttft_ms)],
  ['ITL', 'p50', 'median gap between tokens', r => r.itl_ms.p50, r => milliseconds(r.itl_ms.p50), 1],
  ['ITL', 'p95', '95th percentile', r => r.itl_ms.p95, r => milliseconds(r.itl_ms.p95), 1,
    r => overLimit(r.itl_ms.p95, slo.itl_ms)],
  ['', 'goodput/s', 'requests within the SLO per second', r => r.goodput_rps, r => quantity(r.goodput_rps), -1],
  ['', 'GPU-hours', 'from the request for a replica to its end', r => r.gpu_hours, r => quantity(r.gpu_hours), 1],
  ['', 'GPU USD', 'GPU-hours times price, in USD', r => r.cost, r => quantity(r.cost), 1],
  ['', 'cache hits', 'share of prompt tokens', r => r.prefix_hit_ratio, r => share(r.prefix_hit_ratio), -1],
  ['', 'preempted', 'requests that had to start again', r => r.preemptions, r => count(r.preemptions), 1],
  ['', 'failed', 'requests without an answer', r => r.failed, r => count(r.failed), 1, r => r.failed > 0 ? 'bad' : ''],
  ['', 'actions', 'changes of a target; in brackets: reversals of direction', r => r.scaling_actions,
    r => r.scaling_actions ? `${count(r.scaling_actions)} (${count(r.direction_changes)})` : '0', 1],
];
const sorting = {column: -1, direction: 1};  // column -1: the report's own order, best first

function sortBy(column) {
  const first = SUMMARY[column][5];
  if (sorting.column !== column) Object.assign(sorting, {column, direction: first});
  else if (sorting.direction === first) sorting.direction = -first;
  else sorting.column = -1;
  renderSummary();
  document.querySelectorAll('#summary th button')[column]?.focus();
}

function sorted(results) {
  if (sorting.column < 0) return results;
  const key = SUMMARY[sorting.column][3];
  const missing = result => !known(key(result));
  return [...results].sort((a, b) => missing(a) - missing(b) || sorting.direction * (key(a) - key(b)) || 0);
}

function summaryHead() {
  const groups = make('tr', {class: 'groups'}, make('td', {class: 'first'}));
  for (let i = 0; i < SUMMARY.length;) {
    let span = 1;
    while (SUMMARY[i][0] && SUMMARY[i + span]?.[0] === SUMMARY[i][0]) ++span;
    groups.append(SUMMARY[i][0] ? make('th', {colspan: span, scope: 'colgroup'}, SUMMARY[i][0]) : make('td'));
    i += span;
  }
  const headings = SUMMARY.map(([group, name, why], column) => make('th', {
    scope: 'col', title: why,
    'aria-sort': sorting.column === column ? (sorting.direction > 0 ? 'ascending' : 'descending') : null,
  }, make('button', {type: 'button', 'aria-label': `sort by ${group} ${name}`, onclick: () => sortBy(column)}, name)));
  return make('thead', {}, groups, make('tr', {}, make('th', {class: 'first', scope: 'col'}, 'policy'), ...headings));
}

function renderSummary() {
  const rows = sorted(report.results).map(result => {
    const kept = [meter(result.slo_attainment, colourOf(result)), share(result.slo_attainment)];
    const cells = SUMMARY.map(([, , , , text, , tone]) =>
      make('td', {class: tone?.(result)}, ...(text ? [text(result)] : kept)));
    const pick = make('button', {type: 'button', class: 'pick', title: result.label, onclick: () => choose(result)},
      dot(result), result.label);
    return make('tr', {class: 'selectable' + (result === chosen.policy ? ' chosen' : '')},
      make('th', {class: 'first', scope: 'row'}, pick), ...cells);
  });
  if (!rows.length) rows.push(emptyRow(SUMMARY.length + 1, 'No policy was run.'));
  document.getElementById('summary').replaceChildren(summaryHead(), make('tbody', {}, ...rows));
}

const emptyRow = (span, text) => make('tr', {}, make('td', {colspan: span, class: 'none'}, text));

// ---- decisions -----------------------------------------------------------------------------------------------------

const PAGE = 100;
const filter = {policy: null, reason: '', search: '', rows: PAGE};  // policy null: all of them

function filteredDecisions() {
  const results = filter.policy ? [filter.policy] : report.results;
  const search = filter.search.toLowerCase();
  return results.flatMap(result => result.decisions.map(decision => ({result, decision})))
    .filter(({decision}) => !filter.reason || decision.reason === filter.reason)
    .filter(({decision}) => !search || `${decision.evidence} ${decision.limited_by} ${decision.cause ?? ''} ${decision.diagnosis ?? ''}`.toLowerCase().includes(search))
    .sort((a, b) => a.decision.at_s - b.decision.at_s);
}

function decisionRow({result, decision}, columns) {
  const up = decision.target > decision.current;
  const found = make('button', {type: 'button', class: 'quiet', onclick: () => showMoment(result, decision.at_s)},
    clock(decision.at_s));
  const cells = {
    time: make('td', {class: 'left'}, found),
    policy: make('td', {class: 'left'}, dot(result), result.label),
    pool: make('td', {class: 'left'}, decision.pool),
    replicas: make('td', {class: 'left'}, `${up ? '▲' : '▼'} ${decision.current} → ${decision.target}`),
    reason: make('td', {class: 'left'}, make('span', {class: 'tag'}, nameText(decision.reason))),
    evidence: make('td', {class: 'text soft'}, decision.evidence),
    'limited by': make('td', {class: 'left'},
      decision.limited_by ? make('span', {class: 'tag'}, nameText(decision.limited_by)) : ''),
    diagnosis: make('td', {class: 'text soft'},
      decision.cause ? make('span', {class: 'tag'}, nameText(decision.cause)) : '',
      decision.diagnosis ? ' ' + decision.diagnosis : ''),
    'next phase': make('td', {}, known(decision.next_phase_target) ? count(decision.next_phase_target) : ''),
  };
  const marked = chosen.policy === result && chosen.moment === decision.at_s;
  return make('tr', {class: marked ? 'marked' : null}, ...columns.map(name => cells[name]));
}

function renderDecisions() {
  const found = filteredDecisions();
  const pools = new Set(report.results.flatMap(result => result.decisions.map(decision => decision.pool)));
  const columns = ['time', ...(filter.policy ? [] : ['policy']), ...(pools.size > 1 ? ['pool'] : []),
    'replicas', 'reason', 'evidence', 'limited by',
    ...(found.some(({decision}) => decision.cause) ? ['diagnosis'] : []),
    ...(found.some(({decision}) => known(decision.next_phase_target)) ? ['next phase'] : [])];
  const rows = found.slice(0, filter.rows).map(entry => decisionRow(entry, columns));
  if (!rows.length) {
    const idle = filter.policy && !filter.policy.decisions.length;
    rows.push(emptyRow(columns.length, idle ? `${filter.policy.label} never changed its fleet.` : 'No decision matches.'));
  }
  const head = make('tr', {}, ...columns.map(name => make('th', {class: 'left', scope: 'col'}, name)));
  document.getElementById('decision-table').replaceChildren(make('thead', {}, head), make('tbody', {}, ...rows));
  const kept = (filter.policy ? [filter.policy] : report.results).filter(r => r.decisions_total > r.decisions.length);
  document.getElementById('decision-count').textContent =
    `${count(found.length)} ${found.length === 1 ? 'decision' : 'decisions'}` +
    (kept.length ? ` of the first ${count(kept[0].decisions.length)}` : '');
  const more = document.getElementById('decision-more');
  more.hidden = found.length <= filter.rows;
  more.textContent = `Show ${count(Math.min(PAGE, found.length - filter.rows))} more`;
}

function renderReasons() {
  const results = filter.policy ? [filter.policy] : report.results;
  const reasons = [...new Set(results.flatMap(result => result.decisions.map(decision => decision.reason)))].sort();
  if (!reasons.includes(filter.reason)) filter.reason = '';
  const select = document.getElementById('decision-reason');
  select.replaceChildren(make('option', {value: ''}, 'any'),
    ...reasons.map(reason => make('option', {value: reason, selected: reason === filter.reason}, nameText(reason))));
}

// ---- segments ------------------------------------------------------------------------------------------------------

// In the order of their first mention: {dimension: [label]}.
function segmentKeys() {
  const keys = new Map();
  for (const result of report.results)
    for (const {dimension, label} of result.segments) {
      if (!keys.has(dimension)) keys.set(dimension, []);
      if (!keys.get(dimension).includes(label)) keys.get(dimension).push(label);
    }
  return keys;
}
const segmentOf = (result, dimension, label) =>
  result.segments.find(segment => segment.dimension === dimension && segment.label === label);

function heatCell(segment) {
  if (!segment) return make('td', {class: 'heat soft'}, NOTHING);
  const missed = 1 - segment.slo_attainment;  // the root makes a few percent visible
  return make('td', {class: 'heat', '--missed': missed > 0 ? (0.06 + 0.5 * Math.sqrt(missed)).toFixed(3) : 0},
    share(segment.slo_attainment));
}

function renderHeat() {
  const body = make('tbody');
  const width = report.results.length + 2;
  for (const [dimension, labels] of segmentKeys()) {
    body.append(make('tr', {class: 'part'}, make('th', {class: 'first', scope: 'rowgroup'}, dimension),
      make('td', {colspan: width - 1})));
    for (const label of labels) {
      const cells = report.results.map(result => heatCell(segmentOf(result, dimension, label)));
      const requests = report.results.map(result => segmentOf(result, dimension, label)?.requests);
      body.append(make('tr', {}, make('th', {class: 'first pick', scope: 'row', title: label}, label),
        make('td', {class: 'soft'}, count(Math.max(...requests.filter(known)))), ...cells));
    }
  }
  if (!body.children.length) body.append(emptyRow(width, 'No requests.'));
  const head = make('tr', {}, make('th', {class: 'first', scope: 'col'}, 'segment'),
    make('th', {scope: 'col'}, 'requests'), ...report.results.map(result =>
      make('th', {scope: 'col', style: 'text-align: center'}, dot(result), result.label)));
  document.getElementById('heat').replaceChildren(make('thead', {}, head), body);
}

// Only where segments have targets of their own.
function renderTargets() {
  const results = report.results.filter(result => result.targets);
  document.getElementById('targets').hidden = !results.length;
  if (!results.length) return;
  const hasE2e = results.some(result => result.targets.some(target => known(target.e2e_limit_ms)));
  const names = ['segment', 'policy', 'TTFT limit', 'ITL limit', ...(hasE2e ? ['e2e limit'] : []), 'requests', 'goal',
    'SLO attainment', 'TTFT met', 'ITL met'];
  const body = make('tbody');
  results[0].targets.forEach(({name}, i) => {
    for (const result of results) {
      const t = result.targets[i];
      body.append(make('tr', {}, make('th', {class: 'first pick', scope: 'row', title: name}, name),
        make('td', {style: 'text-align: left'}, dot(result), result.label),
        make('td', {}, seconds(t.ttft_limit_ms / 1000)), make('td', {}, seconds(t.itl_limit_ms / 1000)),
        hasE2e ? make('td', {}, seconds(t.e2e_limit_ms / 1000)) : null,
        make('td', {}, count(t.requests)), make('td', {}, goalShare(t.goal)),
        make('td', {class: t.goal_kept ? '' : 'bad'}, share(t.slo_attainment)),
        make('td', {}, share(t.ttft_attainment)),
        make('td', {}, share(t.itl_attainment))));
    }
  });
  const head = make('tr', {}, ...names.map((name, i) => make('th', {class: i ? null : 'first', scope: 'col'}, name)));
  document.getElementById('target-table').replaceChildren(make('thead', {}, head), body);
}

function renderSegments() {
  const {policy} = chosen;
  document.getElementById('segments-of').textContent = policy ? `Latency by segment: ${policy.label}` : 'Latency by segment';
  const names = ['segment', 'requests', 'failed', 'SLO attainment', 'TTFT p50', 'TTFT p95', 'TTFT p99', 'ITL p50', 'ITL p95'];
  const body = make('tbody');
  for (const [dimension] of segmentKeys()) {
    const segments = policy.segments.filter(segment => segment.dimension === dimension);
    if (!segments.length) continue;
    body.append(make('tr', {class: 'part'}, make('th', {class: 'first', scope: 'rowgroup'}, dimension),
      make('td', {colspan: names.length - 1})));
    for (const s of segments)
      body.append(make('tr', {}, make('th', {class: 'first pick', scope: 'row', title: s.label}, s.label),
        make('td', {}, count(s.requests)), make('td', {class: s.failed ? 'bad' : ''}, count(s.failed)),
        make('td', {}, meter(s.slo_attainment, colourOf(policy)), share(s.slo_attainment)),
        make('td', {}, milliseconds(s.ttft_ms.p50)),
        make('td', {class: overLimit(s.ttft_ms.p95, slo.ttft_ms)}, milliseconds(s.ttft_ms.p95)),
        make('td', {class: overLimit(s.ttft_ms.p99, slo.ttft_ms)}, milliseconds(s.ttft_ms.p99)),
        make('td', {}, milliseconds(s.itl_ms.p50)),
        make('td', {class: overLimit(s.itl_ms.p95, slo.itl_ms)}, milliseconds(s.itl_ms.p95))));
  }
  if (!body.children.length) body.append(emptyRow(names.length, 'No requests.'));
  const head = make('tr', {}, ...names.map((name, i) => make('th', {class: i ? null : 'first', scope: 'col'}, name)));
  document.getElementById('segment-table').replaceChildren(make('thead', {}, head), body);
}

const mostTokensFirst = tenants => [...tenants].sort((a, b) =>
  b.prompt_tokens + b.output_tokens - a.prompt_tokens - a.output_tokens);

// ---- what was replayed -----------------------------------------------------------------------------------------------

function renderReplayed() {
  const {workload, options} = report;
  const facts = [
    ['workload', workload.name],
    ['requests', `${count(workload.requests)} in ${seconds(workload.duration_s)}` +
      (workload.rate_scale === 1 ? '' : `, at x${workload.rate_scale} the recorded rate`) + scoredFrom()],
    ['SLO', `TTFT ${seconds(slo.ttft_ms / 1000)}${known(slo.e2e_ms) ? ',' : ' and'} ITL ${seconds(slo.itl_ms / 1000)}` +
      (known(slo.e2e_ms) ? ` and e2e ${seconds(slo.e2e_ms / 1000)}` : '') + ', for each request' +
      (report.results.some(result => result.targets) ? ' whose segment has no own target' : '')],
    ['engine', options.engine],
    ['KV cache', `${count(options.kv_blocks)} blocks of ${options.block_tokens} tokens per replica`],
    ['router', options.router],
    ['start-up', `${seconds(options.start_up_s)} from the request for a replica until it is ready`],
    ...options.pools.map(pool => [options.pools.length > 1 ? `pool ${pool.name}` : 'pool',
      `${pool.role}, starts with ${pool.replicas}, ${pool.min_replicas} to ${pool.max_replicas} replicas of ` +
      `${pool.gpus_per_replica} GPU${pool.gpus_per_replica === 1 ? '' : 's'}, ${pool.price_per_gpu_hour} USD per GPU-hour`]),
    ['seed', String(options.seed)],
  ];
  document.getElementById('options').replaceChildren(
    ...facts.filter(([, text]) => text).flatMap(([name, text]) => [make('dt', {}, name), make('dd', {}, text)]));
  document.getElementById('headline').textContent = unbroken(data.headline);
  const answer = document.getElementById('answer');
  answer.hidden = !report.answer;
  answer.textContent = unbroken(report.answer?.text ?? '');
  document.getElementById('command').textContent = options.command;
  const notes = [
    ...report.results.filter(result => result.failures.length).map(result => `${result.label}: ` +
      result.failures.map(failure => `${count(failure.requests)} failed, ${nameText(failure.reason)}`).join('; ')),
    ...report.results.filter(result => result.gateway?.waited).map(({label, gateway}) => `${label}: ` +
      `${count(gateway.waited)} requests waited at the gateway, p50 ${milliseconds(gateway.queue_wait_ms.p50)}, ` +
      `p95 ${milliseconds(gateway.queue_wait_ms.p95)}`),
    ...report.results.filter(result => result.gateway?.tenants.length > 1).map(({label, gateway}) => `${label}: ` +
      mostTokensFirst(gateway.tenants).slice(0, 10).map(tenant => `${tenant.name} ${count(tenant.requests)} requests ` +
        `(${count(tenant.refused)} refused), ${count(tenant.prompt_tokens + tenant.output_tokens)} tokens` +
        (known(tenant.budget_share) ? `, ${share(tenant.budget_share)} of the budget` : '') +
        (tenant.token_cost ? `, token cost ${quantity(tenant.token_cost)} USD` : '') +
        (known(tenant.gpu_cost) ? `, GPU cost ${quantity(tenant.gpu_cost)} USD` : '')).join('; ')),
    ...(workload.skipped_rows ? [`Invalid rows of the trace that were skipped: ${count(workload.skipped_rows)}`] : []),
    ...report.notes,
  ];
  document.getElementById('notes').replaceChildren(...notes.map(note => make('p', {}, note)));
  document.getElementById('made').textContent = `Penstock ${report.penstock}`;
  document.getElementById('facts').textContent =
    several.length ? `${several.length} deployments: ${several.map(each => each.name).join(', ')}` : runFacts();
}

// What arrives before is in the charts over time, and not in the results.
const scoredFrom = () => report.workload.score_from_s > 0 ? `, scored from ${seconds(report.workload.score_from_s)}` : '';

function runFacts() {
  const {workload, options} = report;
  return `${workload.name} · ${count(workload.requests)} requests in ${seconds(workload.duration_s)}${scoredFrom()} · seed ${options.seed}`;
}
