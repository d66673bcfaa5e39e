// The charts. Each is drawn from `chosen` (policy, rivals, span, moment); drawing again replaces what is there.

const CONFIG = {displayModeBar: false, responsive: true, showTips: false, doubleClick: false};
const PERCENT = {tickvals: [0, 25, 50, 75, 100], ticktext: ['0 %', '25 %', '50 %', '75 %', '100 %']};
const TIME_CHARTS = ['replicas', 'decisions', 'ttft', 'itl', 'slo', 'queue', 'kv', 'tokens', 'lengths', 'capacity'];
const narrow = () => document.documentElement.clientWidth < 620;
const touch = matchMedia('(pointer: coarse)').matches;
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const faded = (colour, alpha) => {
  const [r, g, b] = [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
};
const place = name => document.getElementById('chart-' + name);

function layout(changes) {
  const [ink, soft, line, surface] = ['--ink', '--soft', '--line', '--surface'].map(css);
  const axis = {gridcolor: line, zeroline: false, linecolor: line, tickfont: {size: 11}, title: {font: {size: 11}, standoff: 6}};
  const {xaxis, yaxis, yaxis2, ...others} = changes;
  return {
    paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', colorway: [soft],
    font: {family: css('--sans'), size: 12, color: soft},
    margin: {l: narrow() ? 44 : 54, r: narrow() ? 14 : 24, t: 34, b: 34},
    hovermode: 'x unified', dragmode: touch ? false : 'zoom', showlegend: true,
    hoverlabel: {bgcolor: surface, bordercolor: line, font: {family: css('--sans'), color: ink, size: 12}, namelength: -1, align: 'left'},
    legend: {orientation: 'h', traceorder: 'normal', x: 0, y: 1.01, yanchor: 'bottom', font: {size: 11, color: soft}, itemclick: false, itemdoubleclick: false},
    xaxis: {...axis, showgrid: false, ticks: 'outside', tickcolor: line, ticklen: 4, ...xaxis},
    yaxis: {...axis, rangemode: 'tozero', fixedrange: true, ...yaxis},
    ...(yaxis2 ? {yaxis2: {...axis, rangemode: 'tozero', fixedrange: true, ...yaxis2}} : {}),
    ...others,
  };
}

// The run starts in 1970. Plotly reads a date as text in UTC, a number as local time, and one of four digits as a year.
const toDate = atSeconds => new Date(Math.round(atSeconds * 1000)).toISOString().slice(0, -1);
function timeAxis() {
  const end = Math.max(1, ...report.results.map(result => result.series.at_s.at(-1) ?? 0));
  return {
    type: 'date', range: chosen.span ?? [toDate(0), toDate(end)], hoverformat: end < 86400 ? '%-H:%M:%S' : 'day %-j, %H:%M:%S',
    nticks: narrow() ? 5 : 9,
    tickformatstops: [
      {dtickrange: [null, 60000], value: '%-H:%M:%S'}, {dtickrange: [60000, 86400000], value: end < 86400 ? '%-H:%M' : 'd%-j %H:%M'},
      {dtickrange: [86400000, null], value: 'day %-j'},
    ],
  };
}

const DASHES = ['dash', 'dot', 'dashdot', 'longdash', 'longdashdot'];
const rivalsInOrder = () => report.results.filter(result => chosen.rivals.has(result));
// The chosen policy, then those it is compared with, which are always dashed.
function shown() {
  const list = [chosen.policy, ...rivalsInOrder()];
  return list.map((result, i) => ({
    result, dash: i ? DASHES[(i - 1) % DASHES.length] : 'solid', colour: colourOf(result), dates: result.series.at_s.map(toDate), series: result.series,
    name: text => list.length > 1 ? `${plain(result.label)}: ${text}` : text,
  }));
}

function line(of, name, values, changes = {}) {
  const sparse = values.filter(known).length < 40;  // a lone point between gaps would not be seen
  return {
    type: 'scatter', mode: sparse ? 'lines+markers' : 'lines', marker: {size: 4}, x: of.dates, y: values, name: of.name(name),
    line: {color: of.colour, width: 1.8, dash: of.dash, ...changes.line}, ...Object.fromEntries(
      Object.entries(changes).filter(([key]) => key !== 'line')),
  };
}

function limitLine(value, text) {
  const end = Math.max(1, ...report.results.map(result => result.series.at_s.at(-1) ?? 0));
  return {
    type: 'scatter', mode: 'lines', x: [toDate(0), toDate(end)], y: [value, value], name: text, hoverinfo: 'skip',
    line: {color: css('--bad'), width: 1.3, dash: 'dot'},
  };
}

function marks() {
  if (chosen.moment == null) return [];
  return [{type: 'line', x0: toDate(chosen.moment), x1: toDate(chosen.moment), yref: 'paper', y0: 0, y1: 1,
    line: {color: css('--bad'), width: 1.2}}];
}

// Small counts have a tick for each whole number: there is no half replica, and `800m` is no request.
const countAxis = traces => traces.some(trace => trace.y.some(value => value > 5)) ? {tickformat: '~s'} : {dtick: 1, tickformat: 'd'};

// `onclick` gets the trace and the number of the point.
function draw(name, traces, changes, onclick) {
  const element = place(name);
  if (!traces.some(trace => trace.y?.some(known))) {
    Plotly.purge(element);
    element.replaceChildren('Nothing was measured.');
    element.classList.add('empty');
    return;
  }
  if (element.classList.contains('empty')) element.replaceChildren();
  element.classList.remove('empty');
  element.setAttribute('role', 'img');
  element.setAttribute('aria-label', `${element.parentElement.innerText.split('\n')[0]}: ${traces.map(t => t.name).join(', ')}`);
  const fresh = !element.classList.contains('js-plotly-plot');
  Plotly.react(element, traces, layout(changes), CONFIG);
  if (!fresh) return;
  if (TIME_CHARTS.includes(name)) {
    element.on('plotly_relayout', change => {
      if (change['xaxis.range[0]'] != null) zoom([change['xaxis.range[0]'], change['xaxis.range[1]']]);
    });
    element.on('plotly_doubleclick', () => zoom(null));
  }
  if (onclick) element.on('plotly_click', ({points}) => points.forEach(point => onclick(point.data, point.pointNumber)));
}

// ---- over time -------------------------------------------------------------------------------------------------------

// The details of a decision or hold as lines of a hover text.
function detailLines(note) {
  const lines = [];
  if (note.cause || note.diagnosis) lines.push(wrapped('diagnosis: ' + (note.diagnosis || nameText(note.cause))));
  if (note.phase) lines.push(wrapped('phase ' + note.phase));
  if (known(note.next_phase_target)) lines.push(`the next phase would ask for ${note.next_phase_target}`);
  if (known(note.forecast_requests_per_s)) lines.push(`expects ${quantity(note.forecast_requests_per_s)} requests/s`);
  return lines.map(text => '<br>' + text).join('');
}

// The changes and holds of one policy, ordered by time.
const notesOf = result => [...result.decisions, ...result.holds ?? []].sort((a, b) => a.at_s - b.at_s);

// What the policy expected or estimated, where it did: one column of its forecasts as a line.
function forecastLine(of, name, column, changes) {
  const {forecasts} = of.result;
  if (!forecasts?.[column]) return [];
  const dates = forecasts.at_s.map(toDate);
  return [line({...of, dates}, name, forecasts[column], {mode: 'lines', ...changes,
    line: {color: css('--ink'), width: 1.2, dash: 'dash', ...changes.line}})];
}

// The target of the next rollout phase, summed over the pools that have one.
function nextPhaseLine(of) {
  const byPool = new Map(), dates = [], targets = [];
  for (const note of notesOf(of.result)) {
    if (known(note.next_phase_target)) byPool.set(note.pool, note.next_phase_target);
    else byPool.delete(note.pool);
    dates.push(toDate(note.at_s));
    targets.push(byPool.size ? [...byPool.values()].reduce((a, b) => a + b, 0) : null);
  }
  if (!targets.some(known)) return [];
  dates.push(of.dates.at(-1));
  targets.push(targets.at(-1));
  return [line({...of, dates}, 'target of the next phase', targets, {mode: 'lines', hovertemplate: '%{y}',
    line: {shape: 'hv', color: COLOURS[themeName()][3], width: 1.3, dash: 'dash'}})];
}

function decisionMarks(of) {
  const {decisions} = of.result;
  const [surface, ink] = ['--surface', '--ink'].map(css);
  const pools = new Set(decisions.map(d => d.pool));
  // A target is of one pool; the chart's line is of all: the mark stands on the line.
  const height = at => of.series.target_replicas[of.series.at_s.findIndex(t => t >= at)] ?? of.series.target_replicas.at(-1);
  return {
    type: 'scatter', mode: 'markers', name: 'decision', x: decisions.map(d => toDate(d.at_s)),
    y: decisions.map(d => pools.size > 1 ? height(d.at_s) : d.target),
    marker: {symbol: decisions.map(d => d.target > d.current ? 'triangle-up' : 'triangle-down'), size: 9,
      color: decisions.map(d => d.target > d.current ? of.colour : surface), line: {color: decisions.length > 60 ? of.colour : ink, width: 1.1}},
    text: decisions.map(d => `<b>${plain(d.pool)}: ${d.current} → ${d.target}</b>, ${plain(nameText(d.reason))}` +
      (d.limited_by ? `, limited by ${plain(nameText(d.limited_by))}` : '') + `<br>${wrapped(d.evidence)}` + detailLines(d)),
    hovertemplate: '%{text}<extra></extra>',
  };
}

function drawReplicas() {
  const list = shown(), [main] = list, s = main.series;
  const ink = css('--ink'), soft = css('--soft');
  const step = {shape: 'hv'};
  const from0 = (first, values) => [first, ...values];  // the fleet of the start, which no interval has ended yet
  const start = main.result.replicas;
  const atStart = {...main, dates: from0(toDate(0), main.dates)};
  const traces = [
    line({...main, dash: 'solid'}, 'requests/s', s.arrivals_per_s, {name: 'load', yaxis: 'y2', fill: 'tozeroy', mode: 'lines',
      line: {color: soft, width: 1.2}, fillcolor: faded(STATIC_COLOUR[themeName()], .14), hovertemplate: '%{y:.3~g} requests/s'}),
    ...forecastLine(main, 'expected requests/s', 'expected_requests_per_s',
      {yaxis: 'y2', hovertemplate: '%{y:.3~g} requests/s over the start-up time'}),
    line(atStart, 'ready', from0(start, s.ready_replicas), {mode: 'lines', fill: 'tozeroy', fillcolor: faded(main.colour, .16),
      line: step, hovertemplate: '%{y}'}),
    line(atStart, 'starting', from0(start, s.ready_replicas.map((ready, i) => ready + s.starting_replicas[i])), {mode: 'lines',
      fill: 'tonexty', fillcolor: faded(COLOURS[themeName()][4], .35), line: {...step, width: 0}, customdata: from0(0, s.starting_replicas),
      hovertemplate: '%{customdata}'}),
    line(atStart, 'target', from0(start, s.target_replicas), {mode: 'lines', line: {...step, color: ink, width: 1.3, dash: 'dot'},
      hovertemplate: '%{y}'}),
  ];
  if (s.draining_replicas.some(Boolean))
    traces.push(line(main, 'draining', s.draining_replicas, {mode: 'lines', line: {...step, color: soft, width: 1.2, dash: 'dashdot'},
      hovertemplate: '%{y}'}));
  if (s.asleep_replicas)
    traces.push(line(main, 'asleep', s.asleep_replicas, {mode: 'lines', line: {...step, color: soft, width: 1.2, dash: 'longdash'},
      hovertemplate: '%{y}'}));
  for (const other of list.slice(1))
    traces.push(line({...other, dates: from0(toDate(0), other.dates)}, 'ready', from0(other.result.replicas, other.series.ready_replicas),
      {mode: 'lines', line: step, hovertemplate: '%{y}'}));
  traces.push(...nextPhaseLine(main));
  if (main.result.decisions.length) traces.push(decisionMarks(main));
  draw('replicas', traces, {
    xaxis: {...timeAxis(), anchor: 'y'}, shapes: marks(),
    yaxis: {domain: [0, .68], title: {text: 'replicas', font: {size: 11}, standoff: 6},
      ...countAxis(traces.filter(trace => trace.yaxis !== 'y2'))},
    yaxis2: {domain: [.77, 1], title: {text: 'requests/s', font: {size: 11}, standoff: 6}, nticks: 4},
  }, (trace, point) => {
    if (trace.name === 'decision') showMoment(chosen.policy, chosen.policy.decisions[point].at_s);
  });
}

// ---- what was decided, and why, as bands ---------------------------------------------------------------------------------

const CAUSES = ['queue', 'prefill', 'routing_cache', 'admission', 'transfer', 'cold_start', 'decode_batch', 'kv_pressure', 'preemption',
  'early_signs'];
const causeColour = cause => cause === 'none' ? STATIC_COLOUR[themeName()]
  : COLOURS[themeName()][(1 + Math.max(0, CAUSES.indexOf(cause))) % COLOURS[themeName()].length];

// Spans of time in which `value` of the notes stays the same, empty ones left out.
function bands(notes, value, end) {
  const spans = [];
  for (const note of notes) {
    const name = value(note) || '';
    const last = spans.at(-1);
    if (last?.name === name) continue;
    if (last) last.to = note.at_s;
    spans.push({name, note, from: note.at_s, to: end});
  }
  return spans.filter(span => span.name && span.to > span.from);
}

// [title of the row, its notes, the shown field of a note, the colour of a value]
function rowsOf(result) {
  const notes = notesOf(result);
  const pools = [...new Set(notes.map(note => note.pool))];
  const palette = new Map();
  const colour = name => {
    if (!palette.has(name)) palette.set(name, COLOURS[themeName()][palette.size % COLOURS[themeName()].length]);
    return palette.get(name);
  };
  const ofPool = (name, value) => pools.map(pool =>
    [pools.length > 1 ? `${pool}: ${name}` : name, notes.filter(note => note.pool === pool), value, colour]);
  return [['diagnosis', notes, note => note.cause, causeColour], ...ofPool('reason', note => note.reason),
    ...ofPool('limited by', note => note.limited_by), ['phase', notes, note => note.phase, colour]];
}

function drawDecisions() {
  const [main] = shown(), end = main.series.at_s.at(-1) ?? 0;
  const rows = rowsOf(main.result).map(([name, notes, value, colour]) => ({name, colour, spans: bands(notes, value, end)}))
    .filter(({spans}) => spans.length);
  const traces = rows.flatMap(({name, colour, spans}, row) => [...new Set(spans.map(span => span.name))].map(state => {
    const own = spans.filter(span => span.name === state);
    return {
      type: 'bar', orientation: 'h', name: `${name} ${nameText(state)}`, width: .72, showlegend: false,
      base: own.map(span => toDate(span.from)), x: own.map(span => 1000 * (span.to - span.from)), y: own.map(() => row),
      text: own.map(() => plain(nameText(state))), textposition: 'inside', insidetextanchor: 'middle', textangle: 0,
      insidetextfont: {color: css('--ink'), size: 11},
      marker: {color: faded(colour(state), .38), line: {width: 1, color: colour(state)}},
      customdata: own.map(span => `<b>${plain(name)}: ${plain(nameText(state))}</b><br>${clock(span.from)} to ${clock(span.to)}` +
        (name === 'diagnosis' && span.note.diagnosis ? '<br>' + wrapped(span.note.diagnosis) : '')),
      hovertemplate: '%{customdata}<extra></extra>',
    };
  }));
  const element = place('decisions');
  element.closest('figure').hidden = !traces.length;
  element.style.height = 60 + 38 * rows.length + 'px';
  draw('decisions', traces, {
    xaxis: timeAxis(), shapes: marks(), barmode: 'overlay', hovermode: 'closest', uniformtext: {minsize: 9, mode: 'hide'},
    margin: {l: narrow() ? 80 : 110, r: narrow() ? 14 : 24, t: 12, b: 34},
    yaxis: {range: [rows.length - .5, -.5], tickvals: rows.map((_, i) => i), ticktext: rows.map(({name}) => plain(name)), showgrid: false},
  });
}

// Latencies far over their limit need a logarithmic axis, or the limit lies on the floor.
function drawLatency(name, limit, p50, p95, estimated) {
  const traces = shown().flatMap(of => [
    line(of, 'p95', of.series[p95], {customdata: of.series[p95].map(milliseconds), hovertemplate: '%{customdata}'}),
    ...(of.dash !== 'solid' ? [] : [line(of, 'p50', of.series[p50], {
      customdata: of.series[p50].map(milliseconds), hovertemplate: '%{customdata}', line: {color: faded(of.colour, .6), width: 1.2}}),
      ...forecastLine(of, 'estimated', estimated,
        {customdata: of.result.forecasts?.[estimated]?.map(milliseconds), hovertemplate: '%{customdata}'})]),
  ]);
  const values = traces.flatMap(trace => trace.y).filter(value => known(value) && value > 0);
  const log = values.length > 0 && Math.max(...values) > 5 * limit;
  const [low, high] = [Math.min(limit / 2, ...values), Math.max(limit * 1.6, ...values)];
  const ticks = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); log && power <= high * 1.5; power *= 10) ticks.push(power);
  const labels = {tickvals: ticks, ticktext: ticks.map(tick => tick >= 1000 ? tick / 1000 + ' s' : tick + ' ms')};
  draw(name, values.length ? [...traces, limitLine(limit, 'limit ' + seconds(limit / 1000))] : [], {
    xaxis: timeAxis(), shapes: marks(),
    yaxis: log ? {type: 'log', rangemode: 'normal', range: [Math.log10(low * .8), Math.log10(high * 1.25)], ...labels}
      : {ticksuffix: high < 4000 ? ' ms' : '', tickformat: ',', title: {text: high < 4000 ? '' : 'ms', standoff: 4}},
  });
}

// Few requests arrive in an interval: neighbours together give a share that means something.
function attainmentOverTime(series, bins = 60) {
  const width = Math.max(1, Math.ceil(series.at_s.length / bins));
  const dates = [], kept = [], text = [];
  for (let i = 0; i < series.at_s.length; i += width) {
    const sum = values => values.slice(i, i + width).reduce((a, b) => a + b, 0);
    const judged = sum(series.judged), met = sum(series.met_slo);
    dates.push(toDate(series.at_s[Math.min(i + width, series.at_s.length) - 1]));
    kept.push(judged ? 100 * met / judged : null);
    text.push(judged ? `${share(met / judged)}: ${count(met)} of ${count(judged)}` : '');
  }
  return {dates, kept, text};
}

function drawAttainment() {
  draw('slo', shown().map(of => {
    const {dates, kept, text} = attainmentOverTime(of.series);
    return line({...of, dates}, 'SLO attainment', kept, {customdata: text, hovertemplate: '%{customdata}', mode: 'lines', line: {shape: 'vh'},
      ...(of.dash === 'solid' ? {fill: 'tozeroy', fillcolor: faded(of.colour, .12)} : {})});
  }), {xaxis: timeAxis(), shapes: marks(), yaxis: {range: [0, 104], ...PERCENT}});
}

function drawOthers() {
  const common = {xaxis: timeAxis(), shapes: marks()};
  const queues = shown().flatMap(of => [
    line(of, 'waiting', of.series.queued_requests, {hovertemplate: '%{y:,}', mode: 'lines',
      ...(of.dash === 'solid' ? {fill: 'tozeroy', fillcolor: faded(of.colour, .16)} : {})}),
    ...(of.dash !== 'solid' ? [] : [line(of, 'running', of.series.running_requests, {
      hovertemplate: '%{y:,}', mode: 'lines', line: {color: faded(of.colour, .6), width: 1.2, dash: 'dot'}})]),
  ]);
  draw('queue', queues, {...common, yaxis: countAxis(queues)});
  draw('kv', shown().map(of => line(of, 'in use', of.series.kv_usage.map(value => known(value) ? 100 * value : null), {
    hovertemplate: '%{y:.1f} %', mode: 'lines', ...(of.dash === 'solid' ? {fill: 'tozeroy', fillcolor: faded(of.colour, .12)} : {}),
  })), {...common, yaxis: {range: [0, 104], ...PERCENT}});
  draw('tokens', shown().flatMap((of, i) => [
    line(of, 'output', of.series.output_tokens_per_s, {hovertemplate: '%{y:.4~s} tokens/s', mode: 'lines'}),
    ...(i ? [] : [line(of, 'prompt', of.series.input_tokens_per_s, {name: 'prompt', hovertemplate: '%{y:.4~s} tokens/s', mode: 'lines',
      line: {color: css('--soft'), width: 1.1, dash: 'dot'}})]),
  ]), {...common, yaxis: {tickformat: '~s', ticksuffix: '/s'}});
}

// Mean lengths over neighbours together; output tokens are those that left, over the requests that completed.
function meanLengths(series, bins = 60) {
  const width = Math.max(1, Math.ceil(series.at_s.length / bins));
  const result = {dates: [], prompt: [], output: []};
  const seconds = series.at_s.map((at, i) => at - (series.at_s[i - 1] ?? 0));
  for (let i = 0; i < series.at_s.length; i += width) {
    const sum = value => seconds.slice(i, i + width).reduce((total, _, k) => total + value(i + k), 0);
    const mean = (tokens, requests) => requests ? tokens / requests : null;
    result.dates.push(toDate(series.at_s[Math.min(i + width, series.at_s.length) - 1]));
    result.prompt.push(mean(sum(k => series.input_tokens_per_s[k] * seconds[k]), sum(k => series.arrived[k])));
    result.output.push(mean(sum(k => series.output_tokens_per_s[k] * seconds[k]), sum(k => series.completed[k])));
  }
  return result;
}

function drawLengths() {
  const [main] = shown(), {dates, prompt, output} = meanLengths(main.series);
  const of = {...main, dates}, soft = css('--soft');
  const tokens = '%{y:.4~s} tokens';
  draw('lengths', [
    line(of, 'prompt', prompt, {mode: 'lines', hovertemplate: tokens}),
    line(of, 'output', output, {mode: 'lines', hovertemplate: tokens, line: {color: soft, dash: 'dot'}}),
    ...forecastLine(main, 'expected prompt', 'expected_input_tokens', {hovertemplate: tokens}),
    ...forecastLine(main, 'expected output', 'expected_output_tokens', {hovertemplate: tokens, line: {color: soft, width: 1.1}}),
  ], {xaxis: timeAxis(), shapes: marks(), yaxis: {tickformat: '~s'}});
}

// What a replica is asked to do, and what it can do within the SLO.
function drawCapacity() {
  const [main] = shown(), {forecasts, series} = main.result;
  const pools = report.options.pools, several = pools.length > 1;
  const capacities = forecasts?.capacity_by_pool;
  place('capacity').closest('figure').hidden = !capacities;
  if (!capacities) return;
  const rate = '%{y:.3~g} requests/s';
  const traces = pools.flatMap((pool, i) => {
    const of = i ? {...main, colour: COLOURS[themeName()][(1 + 3 * i) % COLOURS[themeName()].length]} : main;
    const name = text => several ? `${plain(pool.name)}: ${text}` : text;
    const ready = series.ready_replicas.map((all, k) => series.ready_replicas_by_pool?.[k]?.[i] ?? all);
    const load = series.arrivals_per_s.map((arrivals, k) => ready[k] ? arrivals / ready[k] : null);
    return [
      line(of, name('load per replica'), load, {mode: 'lines', hovertemplate: rate}),
      line({...of, dates: forecasts.at_s.map(toDate)}, name('capacity per replica'), capacities.map(values => values?.[i] ?? null),
        {mode: 'lines', hovertemplate: rate, line: {width: 1.3, dash: 'dash'}}),
    ];
  });
  draw('capacity', traces, {xaxis: timeAxis(), shapes: marks(), yaxis: {tickformat: '~g', ticksuffix: '/s'}});
}

function drawTime() {
  if (!chosen.policy) return;
  drawReplicas();
  drawDecisions();
  drawLatency('ttft', slo.ttft_ms, 'ttft_p50_ms', 'ttft_p95_ms', 'estimated_ttft_ms');
  drawLatency('itl', slo.itl_ms, 'itl_p50_ms', 'itl_p95_ms', 'estimated_itl_ms');
  drawAttainment();
  drawOthers();
  drawLengths();
  drawCapacity();
}
