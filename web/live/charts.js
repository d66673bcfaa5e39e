// The charts over time, drawn by uPlot. All charts share one cursor; the legends show the values under it.

const WINDOWS = {5: '5 min', 15: '15 min', 60: '1 h', 1440: '24 h', 10080: '7 d'};
const GAP_S = 180;  // A line has a gap where no point was taken for this time.
const POOL_CHARTS_MAX = 8;
const HEIGHT = 176;

const sumOf = values => total(list(values));
const latencySeries = (key, estimate) => [
  {label: 'p50', colour: 'p50', width: 1, of: point => record(point[key]).p50_ms},
  {label: 'p95', colour: 'p95', width: 2, fill: true, main: true, of: point => record(point[key]).p95_ms},
  {label: 'p99', colour: 'p99', width: 1, dash: [4, 3], of: point => record(point[key]).p99_ms},
  {label: 'estimated', colour: 'd', width: 1.5, dash: [2, 3], of: point => point[estimate]},
];
// The mean of the requests that arrived in the last minute.
const perRequest = key => point => point.arrivals_per_s > 0 ? point[key] / point.arrivals_per_s : null;
// Without a ready engine the use of the KV cache is unknown, not zero.
const ofReady = key => point => sumOf(point.ready) > 0 ? point[key] : null;

const CHARTS = [
  {id: 'requests', title: 'Requests', hint: 'arrivals per second, mean over a minute', format: figure, series: [
    {label: 'requests/s', colour: 'a', width: 2, fill: true, main: true, of: point => point.arrivals_per_s},
    {label: 'capacity within the SLO, at least', colour: 'd', width: 1.5, dash: [2, 3], of: point => point.capacity_per_s}]},
  {id: 'tokens', title: 'Tokens', hint: 'per second, mean over a minute', format: figure, series: [
    {label: 'in', colour: 'a', width: 2, main: true, of: point => point.input_tokens_per_s},
    {label: 'out', colour: 'b', width: 2, of: point => point.output_tokens_per_s}]},
  {id: 'ttft', title: 'Time to first token', hint: 'last minute', format: milliseconds,
   limit: state => record(state.slo).ttft_ms, series: latencySeries('ttft', 'estimated_ttft_ms')},
  {id: 'itl', title: 'Inter-token latency', hint: 'last minute', format: milliseconds,
   limit: state => record(state.slo).itl_ms, series: latencySeries('itl', 'estimated_itl_ms')},
  {id: 'lengths', title: 'Tokens of a request', hint: 'mean of the last minute', format: figure, series: [
    {label: 'prompt', colour: 'a', width: 2, main: true, of: perRequest('input_tokens_per_s')},
    {label: 'output', colour: 'b', width: 2, of: perRequest('output_tokens_per_s')}]},
  {id: 'queues', title: 'Requests running and waiting', format: count, whole: true, series: [
    {label: 'running', colour: 'a', width: 1, of: point => point.running},
    {label: 'waiting at engines', colour: 'b', width: 2, fill: true, main: true, of: point => point.queued},
    {label: 'waiting at the gateway', colour: 'd', width: 2, of: point => point.waiting}]},
  {id: 'kv', title: 'KV cache and prefix hits', format: share, top: 1, series: [
    {label: 'KV used', colour: 'a', width: 2, fill: true, main: true, of: ofReady('kv_usage')},
    {label: 'prefix hits', colour: 'c', width: 2, of: ofReady('hit_ratio')}]},
];

const replicasChart = (pool, index, alone) => ({
  id: 'replicas-' + index, pool: index, poolName: pool, format: count, whole: true,
  title: alone ? 'Replicas' : 'Replicas of ' + clip(pool, 40), hint: 'marks are decisions that changed the target',
  series: [
    {label: 'ready', colour: 'c', width: 2, fill: true, step: true, of: point => list(point.ready)[index]},
    {label: 'starting', colour: 'b', width: 2, step: true, of: point => list(point.starting)[index]},
    {label: 'draining', colour: 'd', width: 2, step: true, of: point => list(point.draining)[index]},
    {label: 'target', colour: 'ink', width: 1.5, dash: [5, 3], step: true, main: true, of: point => list(point.target)[index]},
  ],
});

let shownMinutes = 15;
let chartsOf = null;  // The pools of the current charts.
const charts = [];
const colours = {};
let cursorBy = null;  // The chart under the pointer.

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['ink', 'soft', 'line', 'over', 'surface', 'a', 'b', 'c', 'd', 'p50', 'p95', 'p99'])
    colours[name] = style.getPropertyValue('--' + name).trim();
}

const faint = colour => colour.length === 7 ? colour + '1f' : colour;

// Ticks have no trailing zeros: 50 instead of 50.0.
const tickOf = (format, value) =>
  value === 0 ? '0' : format(value).replace(/(\.\d*?)0+(?=\D|$)/, '$1').replace(/\.(?=\D|$)/, '');

function rangeOf(chart, limit, most) {
  if (chart.top) return [0, chart.top];
  let top = known(most) && most > 0 ? most * 1.12 : 1;
  // A distant limit would flatten the curve.
  if (known(limit) && (!known(most) || top > limit * 0.2)) top = Math.max(top, limit * 1.12);
  return [0, chart.whole ? Math.max(2, Math.ceil(top)) : top];
}

// Labels without seconds need ticks on whole minutes, or neighbours would be equal.
const MINUTES = [1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 720, 1440, 2880, 5760].map(minutes => 60 * minutes);
const hasSeconds = chart => chart.span[1] - chart.span[0] < 301;
const hasDays = chart => chart.span[1] - chart.span[0] > 86401;
const timeIn = (chart, at, withSeconds = true) => hasDays(chart) ? dateAndTime(at).slice(5) : timeOfDay(at, withSeconds);

function optionsOf(chart, width) {
  const font = '11px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif';
  const axis = {stroke: () => colours.soft, font, grid: {stroke: () => colours.line, width: 1}, ticks: {show: false}};
  return {
    width, height: HEIGHT, padding: [10, 24, 0, 0], legend: {show: false}, focus: {alpha: 1},
    cursor: {y: false, drag: {x: false, y: false}, sync: {key: 'penstock'}, points: {size: 6}},
    scales: {
      x: {time: true, range: () => chart.span},
      y: {range: (u, least, most) => rangeOf(chart.what, chart.limit, most)},
    },
    axes: [
      {...axis, space: () => hasDays(chart) ? 84 : hasSeconds(chart) ? 70 : 48, size: 26, incrs: () => hasSeconds(chart) ? [1, 2, 5, 10, 15, 30, 60, 120] : MINUTES, values: (u, splits) => splits.map(at => timeIn(chart, at - (wall.offset ?? 0), hasSeconds(chart)))},
      {...axis, space: 34, size: 58, incrs: chart.what.whole ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] : undefined,
       values: (u, splits) => splits.map(value => tickOf(chart.what.format, value))},
    ],
    series: [{}, ...chart.what.series.map(series => ({
      label: series.label, width: series.width, dash: series.dash, points: {show: (u, index, from, to) => to - from < 8, size: 4}, spanGaps: false,
      stroke: () => colours[series.colour],
      fill: series.fill ? () => faint(colours[series.colour]) : undefined,
      paths: series.step ? uPlot.paths.stepped({align: 1}) : undefined,
    }))],
    hooks: {
      draw: [u => drawLimit(u, chart), u => drawDecisions(u, chart)],
      setCursor: [() => showLegend(chart)],
    },
  };
}

function drawLimit(u, chart) {
  if (!known(chart.limit)) return;
  const {ctx, bbox} = u, ratio = devicePixelRatio, beyond = chart.limit > u.scales.y.max;
  const y = beyond ? bbox.top : Math.round(u.valToPos(chart.limit, 'y', true));
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colours.over;
  ctx.lineWidth = ratio;
  ctx.setLineDash([6 * ratio, 4 * ratio]);
  if (!beyond) {
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
  }
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = 'right';
  ctx.textBaseline = beyond ? 'top' : 'bottom';
  ctx.fillText('SLO ' + limitOf(chart.limit) + (beyond ? ' ↑' : ''), bbox.left + bbox.width - 4 * ratio, y - (beyond ? -2 : 2) * ratio);
  ctx.restore();
}

function drawDecisions(u, chart) {
  if (chart.what.pool === undefined || !live.state) return;
  const {ctx, bbox} = u, ratio = devicePixelRatio, size = 4 * ratio;
  ctx.save();
  ctx.fillStyle = colours.ink;
  for (const decision of list((page.frozen ?? live.state).decisions).map(record)) {
    if (decision.pool !== chart.what.poolName || !known(decision.at_s) || decision.current === decision.target) continue;
    const at = onWall(decision.at_s);
    if (at < chart.span[0] || at > chart.span[1]) continue;
    const x = u.valToPos(at, 'x', true), up = decision.target > decision.current ? -1 : 1, y = bbox.top + bbox.height - size;
    ctx.beginPath();
    ctx.moveTo(x - size, y - up * size / 2);
    ctx.lineTo(x + size, y - up * size / 2);
    ctx.lineTo(x, y + up * size);
    ctx.fill();
  }
  ctx.restore();
}

function buildChart(what, place) {
  const chart = {what, plot: null, span: [0, 1], limit: null, data: [[]], keys: []};
  const title = make('h3', {}, what.title);
  if (what.hint) title.append(' ', make('span', {}, what.hint));
  chart.when = make('span', {class: 'when'});
  const legend = make('div', {class: 'legend', role: 'group', 'aria-label': 'Series of ' + what.title});
  what.series.forEach((series, index) => {
    const value = make('b', {}, NOTHING);
    const key = make('button', {type: 'button', 'aria-pressed': 'true', title: 'Show or hide', '--colour': `var(--${series.colour})`},
      make('i', {'aria-hidden': 'true', class: series.dash ? 'dashed' : ''}), series.label + ' ', value);
    key.addEventListener('click', () => {
      const shows = key.getAttribute('aria-pressed') !== 'true';
      key.setAttribute('aria-pressed', shows);
      chart.plot.setSeries(index + 1, {show: shows});
    });
    chart.keys.push(value);
    legend.append(key);
  });
  chart.canvas = make('div', {class: 'plot', role: 'img', 'aria-label': what.title + ': nothing yet'});
  chart.figure = make('figure', {class: 'card chart', id: 'chart-' + what.id},
    make('figcaption', {}, title, chart.when), chart.canvas, legend);
  place.append(chart.figure);
  chart.plot = new uPlot(optionsOf(chart, 300), [[], ...what.series.map(() => [])], chart.canvas);
  chart.canvas.addEventListener('pointerenter', () => { cursorBy = chart; });
  chart.canvas.addEventListener('pointerleave', () => { cursorBy = null; });
  chart.watch = new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width > 0 && width !== chart.plot.width) chart.plot.setSize({width, height: HEIGHT});
  });
  chart.watch.observe(chart.canvas);
  return chart;
}

function buildCharts(state) {
  const names = list(state.pools).slice(0, POOL_CHARTS_MAX).map(pool => text(record(pool).name));
  const wanted = JSON.stringify(names);
  if (wanted === chartsOf) return;
  chartsOf = wanted;
  const place = byId('charts');
  for (const chart of charts.splice(0)) {
    chart.watch.disconnect();
    chart.plot.destroy();
  }
  cursorBy = null;
  place.replaceChildren();
  readColours();
  names.forEach((name, index) => charts.push(buildChart(replicasChart(name, index, names.length === 1), place)));
  for (const what of CHARTS) charts.push(buildChart(what, place));
}

function withGaps(points) {
  const made = [];
  for (const point of points) {
    if (made.length && point.at_s - made.at(-1).at_s > GAP_S) made.push({at_s: made.at(-1).at_s + 1});
    made.push(point);
  }
  return made;
}

function showCharts(state) {
  buildCharts(state);
  // While the page is paused, the charts end where the rest of the page does.
  const last = live.points.length ? live.points.at(-1).at_s : state.now_s, end = page.paused ? Math.min(last, state.now_s) : last;
  const from = end - shownMinutes * 60;
  const points = withGaps(pointsOf(shownMinutes * 60, end));
  const begin = points.length ? Math.max(from, Math.min(points[0].at_s, end - 60)) : from;
  const times = points.map(point => onWall(point.at_s));
  for (const chart of charts) {
    chart.span = [onWall(begin), onWall(end)];
    chart.limit = chart.what.limit ? chart.what.limit(state) : null;
    chart.data = [times, ...chart.what.series.map(series => points.map(point => {
      const value = series.of(point);
      return known(value) ? value : null;
    }))];
    chart.plot.setData(chart.data);
    showLegend(chart);
    mark(chart.canvas, 'aria-label', describe(chart));
  }
}

function showLegend(chart) {
  const at = cursorBy ? chart.plot.cursor.idx : null;
  const index = known(at) ? at : chart.data[0].length - 1;
  chart.keys.forEach((key, series) => setText(key, chart.what.format(chart.data[series + 1]?.[index])));
  setText(chart.when, known(at) && known(chart.data[0][at]) ? timeIn(chart, chart.data[0][at] - (wall.offset ?? 0)) : '');
}

// Describes the chart in a sentence for screen readers.
function describe(chart) {
  const parts = chart.what.series.map((series, index) => {
    const values = chart.data[index + 1].filter(known);
    if (!values.length) return `${series.label} not known`;
    const format = chart.what.format, now = chart.data[index + 1].at(-1);
    return `${series.label} now ${known(now) ? format(now) : 'not known'}, from ${format(Math.min(...values))} to ${format(Math.max(...values))}`;
  });
  const limit = known(chart.limit) ? `; SLO ${limitOf(chart.limit)}` : '';
  return `${chart.what.title}, last ${WINDOWS[shownMinutes]}: ${parts.join('; ')}${limit}.`;
}

function recolourCharts() {
  readColours();
  for (const chart of charts) chart.plot.redraw(false);
}
