// The charts. Each is drawn from `chosen` (policy, rivals, span, moment); drawing again replaces what is there.

const CONFIG = {displayModeBar: false, responsive: true, showTips: false, doubleClick: false};
const PERCENT = {tickvals: [0, 25, 50, 75, 100], ticktext: ['0 %', '25 %', '50 %', '75 %', '100 %']};
const TIME_CHARTS = ['replicas', 'ttft', 'itl', 'slo', 'queue', 'kv', 'tokens'];
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

// Plotly's dates are milliseconds since 1970 in UTC: the run starts there.
const toDate = atSeconds => atSeconds * 1000;
function timeAxis() {
  const end = Math.max(1, ...report.results.map(result => result.series.at_s.at(-1) ?? 0));
  return {
    type: 'date', range: chosen.span ?? [0, toDate(end)], hoverformat: end < 86400 ? '%-H:%M:%S' : 'day %-j, %H:%M:%S',
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
    type: 'scatter', mode: 'lines', x: [0, toDate(end)], y: [value, value], name: text, hoverinfo: 'skip',
    line: {color: css('--bad'), width: 1.3, dash: 'dot'},
  };
}

function marks() {
  if (chosen.moment == null) return [];
  return [{type: 'line', x0: toDate(chosen.moment), x1: toDate(chosen.moment), yref: 'paper', y0: 0, y1: 1,
    line: {color: css('--bad'), width: 1.2}}];
}

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
    text: decisions.map(d => `<b>${plain(d.pool)}: ${d.current} → ${d.target}</b>, ${plain(words(d.reason))}` +
      (d.limited_by ? `, limited by ${plain(words(d.limited_by))}` : '') + `<br>${wrapped(d.evidence)}`),
    hovertemplate: '%{text}<extra></extra>',
  };
}

function drawReplicas() {
  const list = shown(), [main] = list, s = main.series;
  const ink = css('--ink'), soft = css('--soft');
  const step = {shape: 'hv'};
  const from0 = (first, values) => [first, ...values];  // the fleet of the start, which no interval has ended yet
  const start = main.result.replicas;
  const atStart = {...main, dates: from0(0, main.dates)};
  const traces = [
    line({...main, dash: 'solid'}, 'requests/s', s.arrivals_per_s, {name: 'load', yaxis: 'y2', fill: 'tozeroy', mode: 'lines',
      line: {color: soft, width: 1.2}, fillcolor: faded(STATIC_COLOUR[themeName()], .14), hovertemplate: '%{y:.3~g} requests/s'}),
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
  for (const other of list.slice(1))
    traces.push(line({...other, dates: from0(0, other.dates)}, 'ready', from0(other.result.replicas, other.series.ready_replicas),
      {mode: 'lines', line: step, hovertemplate: '%{y}'}));
  if (main.result.decisions.length) traces.push(decisionMarks(main));
  draw('replicas', traces, {
    xaxis: {...timeAxis(), anchor: 'y'}, shapes: marks(),
    yaxis: {domain: [0, .68], title: {text: 'replicas', font: {size: 11}, standoff: 6}, tickformat: '~d'},
    yaxis2: {domain: [.77, 1], title: {text: 'requests/s', font: {size: 11}, standoff: 6}, nticks: 4},
  }, (trace, point) => {
    if (trace.name === 'decision') showMoment(chosen.policy, chosen.policy.decisions[point].at_s);
  });
}

// Latencies far over their limit need a logarithmic axis, or the limit lies on the floor.
function drawLatency(name, limit, p50, p95) {
  const traces = shown().flatMap(of => [
    line(of, 'p95', of.series[p95], {customdata: of.series[p95].map(milliseconds), hovertemplate: '%{customdata}'}),
    ...(of.dash !== 'solid' ? [] : [line(of, 'p50', of.series[p50], {
      customdata: of.series[p50].map(milliseconds), hovertemplate: '%{customdata}', line: {color: faded(of.colour, .6), width: 1.2}})]),
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
function keptOverTime(series, bins = 60) {
  const width = Math.max(1, Math.ceil(series.at_s.length / bins));
  const dates = [], kept = [], text = [];
  for (let i = 0; i < series.at_s.length; i += width) {
    const sum = values => values.slice(i, i + width).reduce((a, b) => a + b, 0);
    const arrived = sum(series.arrived), met = sum(series.met_slo);
    dates.push(toDate(series.at_s[Math.min(i + width, series.at_s.length) - 1]));
    kept.push(arrived ? 100 * met / arrived : null);
    text.push(arrived ? `${share(met / arrived)}: ${count(met)} of ${count(arrived)}` : '');
  }
  return {dates, kept, text};
}

function drawKept() {
  draw('slo', shown().map(of => {
    const {dates, kept, text} = keptOverTime(of.series);
    return line({...of, dates}, 'kept', kept, {customdata: text, hovertemplate: '%{customdata}', mode: 'lines', line: {shape: 'vh'},
      ...(of.dash === 'solid' ? {fill: 'tozeroy', fillcolor: faded(of.colour, .12)} : {})});
  }), {xaxis: timeAxis(), shapes: marks(), yaxis: {range: [0, 104], ...PERCENT}});
}

function drawOthers() {
  const common = {xaxis: timeAxis(), shapes: marks()};
  draw('queue', shown().flatMap(of => [
    line(of, 'waiting', of.series.queued_requests, {hovertemplate: '%{y:,}', mode: 'lines',
      ...(of.dash === 'solid' ? {fill: 'tozeroy', fillcolor: faded(of.colour, .16)} : {})}),
    ...(of.dash !== 'solid' ? [] : [line(of, 'running', of.series.running_requests, {
      hovertemplate: '%{y:,}', mode: 'lines', line: {color: faded(of.colour, .6), width: 1.2, dash: 'dot'}})]),
  ]), {...common, yaxis: {tickformat: '~s'}});
  draw('kv', shown().map(of => line(of, 'in use', of.series.kv_usage.map(value => known(value) ? 100 * value : null), {
    hovertemplate: '%{y:.1f} %', mode: 'lines', ...(of.dash === 'solid' ? {fill: 'tozeroy', fillcolor: faded(of.colour, .12)} : {}),
  })), {...common, yaxis: {range: [0, 104], ...PERCENT}});
  draw('tokens', shown().flatMap((of, i) => [
    line(of, 'output', of.series.output_tokens_per_s, {hovertemplate: '%{y:.4~s} tokens/s', mode: 'lines'}),
    ...(i ? [] : [line(of, 'prompt', of.series.input_tokens_per_s, {name: 'prompt', hovertemplate: '%{y:.4~s} tokens/s', mode: 'lines',
      line: {color: css('--soft'), width: 1.1, dash: 'dot'}})]),
  ]), {...common, yaxis: {tickformat: '~s', ticksuffix: '/s'}});
}

function drawTime() {
  if (!chosen.policy) return;
  drawReplicas();
  drawLatency('ttft', slo.ttft_ms, 'ttft_p50_ms', 'ttft_p95_ms');
  drawLatency('itl', slo.itl_ms, 'itl_p50_ms', 'itl_p95_ms');
  drawKept();
  drawOthers();
}
