// The page of a load run, drawn from the JSON that `penstock load --json` writes.

const run = JSON.parse(document.getElementById('data').textContent);
const page = document.getElementById('page');

function drawn(tag, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function table(headings, rows) {
  const body = rows.map(row => make('tr', {}, ...row.map(cell => cell instanceof Element ? cell : make('td', {}, cell))));
  return make('div', {class: 'card'},
              make('table', {}, make('tr', {}, ...headings.map(heading => make('th', {}, heading))), ...body));
}

function section(title, ...parts) {
  page.append(make('h2', {}, title), ...parts);
}

function addHead() {
  page.append(make('h1', {}, 'Penstock load: ' + run.target),
              make('p', {}, (run.interrupted ? 'Interrupted. ' : '') + run.model + ', ' + run.traffic),
              make('p', {}, run.command));
  if (run.generator.bottleneck)
    page.append(make('p', {class: 'bad'}, 'The generator may be the bottleneck: latencies include its own delays.'));
}

function addTiles() {
  const tile = ([name, value, bad]) =>
    make('div', {class: 'card'}, make('span', {}, name), make('b', {class: bad ? 'bad' : null}, value));
  const requests = run.requests, generator = run.generator;
  page.append(make('div', {class: 'tiles'}, ...[
    ['requests succeeded', count(requests.ok)],
    ['refused', count(requests.refused)],
    ['failed', count(requests.failed), requests.failed > 0],
    ['truncated', count(requests.truncated), requests.truncated > 0],
    ['timed out', count(requests.timed_out), requests.timed_out > 0],
    ['cancelled', count(requests.cancelled)],
    ['requests a second', quantity(run.requests_per_s)],
    ['tokens a second', quantity(run.tokens_per_s)],
    ['TTFT p95', milliseconds(run.ttft_ms.p95)],
    ['ITL p95', milliseconds(run.itl_ms.p95)],
    ["generator's CPU, of a core", share(generator.cpu_share), generator.cpu_share > 0.8],
    ['sends late by, p99', milliseconds(generator.send_lateness_ms.p99), generator.bottleneck],
  ].map(tile)));
}

// The smallest of 1, 2 and 5 times a power of ten that divides the range into at most six parts.
function tickWidth(range) {
  let width = 10 ** Math.floor(Math.log10(Math.max(range, 1e-9) / 6));
  for (const factor of [2, 2.5, 2])
    if (range / width > 6) width *= factor;
  return width;
}

const LEFT = 66, RIGHT = 626, TOP = 44, BOTTOM = 208;

function chart({title, label, series}) {
  const width = run.timeline.length > 1 ? run.timeline[1].from_s : 1, span = Math.max(run.timeline.length, 1) * width;
  const most = Math.max(0, ...series.flatMap(each => run.timeline.map(each.of)).filter(known));
  const top = most > 0 ? most * 1.05 : 1;
  const x = second => LEFT + (RIGHT - LEFT) * second / span, y = value => BOTTOM - (BOTTOM - TOP) * value / top;
  const text = (at, size, words, attributes) => drawn('text', {x: at[0], y: at[1], 'font-size': size, ...attributes}, words);
  const soft = {fill: 'var(--soft)'}, bold = {'font-weight': 600};
  const figure = drawn('svg', {viewBox: '0 0 640 240', role: 'img'}, drawn('title', {}, title),
                       drawn('desc', {}, 'highest value ' + label(most)), text([LEFT, 18], 14, title, {fill: 'var(--ink)', ...bold}));
  for (let value = 0, step = tickWidth(top); value <= top * 1.0001; value += step)
    figure.append(drawn('line', {x1: LEFT, y1: y(value), x2: RIGHT, y2: y(value), stroke: 'var(--line)'}),
                  text([LEFT - 6, y(value) + 4], 11, label(value), {...soft, 'text-anchor': 'end'}));
  for (let second = 0, step = tickWidth(span); second <= span * 1.0001; second += step)
    figure.append(text([x(second), BOTTOM + 18], 11, second === 0 ? '0' : seconds(second), {...soft, 'text-anchor': 'middle'}));
  const lines = drawn('g', {});  // The last series is in front: errors hide what all requests show, not the reverse.
  let legend = RIGHT;
  for (const {name, colour, of} of [...series].reverse()) {
    figure.append(text([legend, 18], 12, name, {fill: colour, 'text-anchor': 'end', ...bold}));
    legend -= 14 + 7 * name.length;
    let line = [];
    const end = () => {
      if (line.length === 1) lines.prepend(drawn('circle', {cx: line[0][0], cy: line[0][1], r: 1.5, fill: colour}));
      if (line.length > 1) lines.prepend(drawn('polyline', {points: line.map(at => at.join()).join(' '), stroke: colour}));
      line = [];
    };
    // A slot without samples leaves a gap.
    run.timeline.forEach((slot, index) => known(of(slot)) ? line.push([x((index + 0.5) * width), y(of(slot))]) : end());
    end();
  }
  figure.append(lines);
  return make('div', {class: 'card'}, figure);
}

function addCharts() {
  const width = run.timeline.length > 1 ? run.timeline[1].from_s : 1;
  const perSecond = key => slot => slot[key] / width;
  const quantiles = latency => [
    {name: 'p50', colour: 'var(--first)', of: slot => slot[latency + '_p50_ms']},
    {name: 'p95', colour: 'var(--second)', of: slot => slot[latency + '_p95_ms']},
  ];
  section('Over time', make('div', {class: 'charts'}, ...[
    {title: 'TTFT, by intended start', label: milliseconds, series: quantiles('ttft')},
    {title: 'ITL, by intended start', label: milliseconds, series: quantiles('itl')},
    {title: 'requests a second, by intended start', label: quantity, series: [
      {name: 'all', colour: 'var(--first)', of: perSecond('meant')},
      {name: 'refused', colour: 'var(--soft)', of: perSecond('refused')},
      {name: 'errors', colour: 'var(--bad)', of: perSecond('errors')}]},
    {title: 'tokens a second', label: quantity, series: [
      {name: 'received', colour: 'var(--first)', of: perSecond('tokens')}]},
    {title: 'requests in flight, most', label: quantity, series: [
      {name: 'in flight', colour: 'var(--first)', of: slot => slot.in_flight_max}]},
  ].map(chart)));
}

function addLatencies() {
  const row = ([name, figures]) =>
    [name, ...['p50', 'p90', 'p95', 'p99', 'max', 'mean'].map(key => milliseconds(figures[key])), count(figures.count)];
  section('Latencies', table(['', 'p50', 'p90', 'p95', 'p99', 'max', 'mean', 'samples'], [
    ['TTFT, from the intended start', run.ttft_ms],
    ['ITL, mean gap of a request', run.itl_ms],
    ['gap between two tokens', run.gap_ms],
    ['longest gap of a request', run.max_gap_ms],
    ['first byte', run.first_byte_ms],
    ['whole answer', run.latency_ms],
  ].map(row)));
  const histogram = (title, bars) => bars.length === 0 ? null : table([title, 'share', ''], bars.map(bar => [
    bar.up_to_ms === null ? 'longer' : 'up to ' + milliseconds(bar.up_to_ms), share(bar.share),
    make('td', {class: 'wide'}, make('div', {class: 'meter', '--share': bar.share}))]));
  page.append(make('div', {class: 'charts'}, histogram('TTFT', run.ttft_histogram),
                   histogram('gap between two tokens', run.gap_histogram)));
}

function addTables() {
  if (run.expectations.length > 0)
    section('Expectations', table(['figure', 'limit', 'measured', ''], run.expectations.map(each => [
      each.name, each.limit, each.seen,
      make('td', {class: each.met ? 'good' : 'bad'}, each.met ? 'met' : 'missed')])));
  addCharts();
  addLatencies();
  section('Segments', table(
    ['segment', 'requests', 'errors', 'refused', 'TTFT p50', 'p95', 'p99', 'ITL p50', 'p95', 'p99'],
    run.segments.map(({group, label, requests, ttft_ms, itl_ms}) => [
      group + ' ' + label, count(requests.ok + requests.refused + requests.errors), count(requests.errors), count(requests.refused),
      ...[ttft_ms, itl_ms].flatMap(figures => [figures.p50, figures.p95, figures.p99].map(milliseconds))])));
  if (run.causes.length > 0)
    section('Requests that did not succeed', table(['cause', 'requests', 'an example'], run.causes.map(cause => [
      cause.reason, count(cause.count), make('td', {class: 'text'}, cause.example)])));
}

addHead();
addTiles();
addTables();
