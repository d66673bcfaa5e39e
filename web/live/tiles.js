// The tiles: current values with their limits.

const TILES = [
  ['attainment', 'SLO attainment', tile => {
    const {attainment: value, met, judged, goal} = tile.slo;
    return {
      value: share(value), meter: value,
      note: !known(value) && judged > 0 ? 'unknown' : (judged > 0 ? `${count(met)} of ${count(judged)}` : 'no finished request yet') + (known(goal) ? ` · goal ${goalShare(goal)}` : ''),
      tone: !known(value) || !known(goal) ? null : value >= goal ? 'good' : 'over',
    };
  }],
  ['ttft', 'TTFT p95', tile => latencyTile(tile.point.ttft, tile.slo.ttft_ms, tile.slo.ttft_attainment)],
  ['itl', 'ITL p95', tile => latencyTile(tile.point.itl, tile.slo.itl_ms, tile.slo.itl_attainment)],
  ['e2e', 'Unstreamed p95', tile => {
    const shown = latencyTile(tile.point.e2e, tile.slo.e2e_ms);
    const goal = known(tile.slo.e2e_ms) ? shown.note : 'no SLO (slo.e2e)';
    return {...shown, note: `${goal} · TPOT ${milliseconds(record(tile.point.tpot).p95_ms)}`,
            hidden: !known(shown.value_ms) && !known(tile.slo.e2e_ms)};
  }],
  ['requests', 'Requests/s', tile => ({
    value: figure(tile.point.arrivals_per_s), note: `${count(tile.gateway.running)} in flight`,
  })],
  ['tokens', 'Tokens/s in · out', tile => ({
    value: figure(tile.point.input_tokens_per_s) + ' · ' + figure(tile.point.output_tokens_per_s), note: 'prompt · output',
  })],
  ['replicas', 'Replicas ready', tile => {
    const sum = key => total(tile.pools.map(pool => pool[key]));
    const ready = sum('ready'), target = sum('target');
    return {
      value: count(ready), unit: `of ${count(target)}`,
      note: `${count(sum('starting'))} starting · ${count(sum('draining'))} draining` +
        (known(sum('asleep')) ? ` · ${count(sum('asleep'))} asleep` : '') +
        (sum('switching') > 0 ? ` · ${count(sum('switching'))} to switch` : ''),
      tone: known(ready) && known(target) && ready < target ? 'near' : null,
    };
  }],
  ['queue', 'Waiting', tile => {
    const engines = total(tile.samples.map(sample => sample.queued));
    const queue = record(tile.gateway.queue);
    const gateway = total([queue.interactive, queue.batch]);
    return {
      value: count(total([engines, gateway])), unit: 'requests',
      note: `engines ${count(engines)} · gateway ${count(gateway)}` +
        (known(queue.oldest_s) ? ` · oldest ${seconds(queue.oldest_s)}` : ''),
    };
  }],
  ['deferred', 'Deferred', tile => {
    const {requests, next_due_s, missed_total} = record(tile.gateway.deferred);
    return {
      value: count(requests), unit: 'batch requests',
      note: (known(next_due_s) ? `next due in ${age(next_due_s)} · ` : '') + `${count(missed_total)} missed`,
      hidden: !isDeferring(tile.gateway),
    };
  }],
  ['kv', 'KV cache used', tile => {
    const told = tile.samples.filter(sample => known(sample.kv_usage));
    const weight = sample => sample.kv_capacity_tokens > 0 ? sample.kv_capacity_tokens : 1;
    const used = told.length
      ? total(told.map(sample => sample.kv_usage * weight(sample))) / total(told.map(weight)) : null;
    const fullest = told.length ? Math.max(...told.map(sample => sample.kv_usage)) : null;
    return {value: share(used), note: `highest replica ${share(fullest)}`, tone: toneOf(used, 0.9), meter: used};
  }],
  ['hits', 'Prefix hits', tile => ({
    value: share(tile.hits), note: 'of prompt tokens, recently', meter: tile.hits, tone: null,
  })],
  ['cost', 'GPU-hours', tile => {
    const prices = [...new Set(tile.pools.map(pool => pool.price_per_gpu_hour).filter(known))];
    return {
      value: figure(total(tile.pools.map(pool => pool.gpu_hours))),
      note: `GPU cost ${figure(total(tile.pools.map(pool => pool.cost)))} USD` +
        (prices.length ? ` at ${prices.map(usd).join(' and ')} USD/h` : ''),
    };
  }],
  ['token-cost', 'GPU USD per 1M tokens', tile => {
    const {input, output, input_at_slo, output_at_slo} = record(tile.gpuCost.gpu_usd_per_1m_tokens);
    return {
      value: usd(input) + ' · ' + usd(output),
      note: `prompt · output; within SLO ${usd(input_at_slo)} · ${usd(output_at_slo)}`,
    };
  }],
];

// The gateway defers batch requests now, or has deferred some.
const isDeferring = gateway => total([record(gateway.deferred).requests, record(gateway.deferred).deferred_total]) > 0;

function latencyTile(window, limit, attainment) {
  const value = record(window).p95_ms, tone = toneOf(value, limit);
  return {
    value: milliseconds(value), value_ms: value,
    note: `SLO ${limitOf(limit)}` + (known(attainment) ? ` · ${share(attainment)} within` : '') + (tone ? ` · ${TONES[tone]}` : ''),
    tone,
    meter: known(value) && known(limit) && limit > 0 ? value / limit : null,
  };
}

// Without samples of engines the hit ratio is unknown.
function hitsOf(point, samples) {
  return known(point.hit_ratio) && samples.length ? point.hit_ratio : null;
}

const samplesOf = state => list(state.pools)
  .flatMap(pool => list(record(pool).replicas).map(replica => record(replica).sample))
  .filter(sample => sample !== null && typeof sample === 'object');

const tiles = new Map();

function buildTiles(place) {
  for (const [id, label] of TILES) {
    const value = make('b'), unit = make('span', {class: 'unit'}), note = make('p', {class: 'note'}, NOTHING);
    const bar = make('i'), meter = make('div', {class: 'meter', 'aria-hidden': 'true'}, bar);
    value.textContent = NOTHING;
    const box = make('div', {class: 'tile', id: 'tile-' + id, role: 'group', 'aria-labelledby': `tile-${id}-label`},
      make('h2', {id: `tile-${id}-label`}, label), make('p', {class: 'value'}, value, ' ', unit), meter, note);
    meter.hidden = true;
    tiles.set(id, {box, value, unit, note, meter, bar});
    place.append(box);
  }
}

function showTiles(state, point) {
  const blind = lacks(state);  // No tile is good while the state is unknown.
  const samples = samplesOf(state);
  const tile = {
    point: record(point), slo: record(state.slo), gateway: record(state.gateway), samples,
    pools: list(state.pools).map(record), gpuCost: record(record(state.gpu_cost).all), hits: hitsOf(record(point), samples),
  };
  for (const [id, , figures] of TILES) {
    const shown = figures(tile), at = tiles.get(id);
    at.box.hidden = shown.hidden === true;
    setText(at.value, shown.value);
    setText(at.unit, shown.unit ?? '');
    setText(at.note, shown.note ?? '');
    mark(at.box, 'data-tone', blind && shown.tone === 'good' ? null : shown.tone ?? null);
    at.meter.hidden = !known(shown.meter);
    if (known(shown.meter)) at.bar.style.setProperty('width', Math.min(100, Math.max(0, shown.meter * 100)) + '%');
  }
}
