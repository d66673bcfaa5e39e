// SLO attainment against GPU-hours: the policies, and the line of static fleets that they have to beat.

const LETTER = 6.6, LABEL_HEIGHT = 15;  // of a label, in pixels, near enough

// For each point the first position whose label covers no other label and no point; without one, no label.
function labelPositions(points, toPixels, width) {
  const boxes = points.map(point => {
    const [x, y] = toPixels(point);
    return {left: x - 8, right: x + 8, top: y - 8, bottom: y + 8};
  });
  // The line of static fleets rises to the right: there is room below and above it.
  const around = (point, length) => {
    const [x, y] = toPixels(point);
    const at = (left, top) => ({left, right: left + length, top, bottom: top + LABEL_HEIGHT});
    const places = [
      ['middle right', at(x + 11, y - 8)], ['top center', at(x - length / 2, y - 26)],
      ['bottom center', at(x - length / 2, y + 11)], ['middle left', at(x - length - 11, y - 8)],
      ['top right', at(x + 6, y - 24)], ['bottom right', at(x + 6, y + 9)],
      ['top left', at(x - length - 6, y - 24)], ['bottom left', at(x - length - 6, y + 9)],
    ];
    return point.onLine ? [places[5], places[6], ...places] : places;
  };
  const apart = (a, b) => a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top;
  return points.map((point, own) => {
    const fits = ([, box]) => box.left > -30 && box.right < width && box.top > -20 &&
      boxes.every((other, i) => i === own || apart(box, other));
    const found = around(point, point.label.length * LETTER).find(fits);
    if (found) boxes.push(found[1]);
    return found?.[0];
  });
}

function tradePoints() {
  const point = (result, label) =>
    ({result, label, x: result.gpu_hours, y: known(result.slo_attainment) ? 100 * result.slo_attainment : null, attainment: share(result.slo_attainment)});
  const fleets = [...report.frontier].sort((a, b) => a.gpu_hours - b.gpu_hours);
  return {
    policies: report.results.map(result => point(result, result.label)).filter(p => known(p.x) && known(p.y)),
    fleets: fleets.map(fleet => ({...point(fleet, String(fleet.replicas)), onLine: true})).filter(p => known(p.x) && known(p.y)),
  };
}

const tradeHover = ({result, attainment}, name) => `<b>${plain(name)}</b><br>SLO attainment ${attainment}<br>` +
  `${quantity(result.gpu_hours)} GPU-hours, GPU cost ${quantity(result.cost)} USD<br>` +
  `TTFT p95 ${milliseconds(result.ttft_ms.p95)}, ITL p95 ${milliseconds(result.itl_ms.p95)}<br>` +
  `goodput ${quantity(result.goodput_rps)} requests/s`;

function drawTrade() {
  const {policies, fleets} = tradePoints();
  const all = [...policies, ...fleets];
  if (!all.length) return draw('trade', [], {});
  // Far outliers would squash all good fleets into one line: half of the policies and the goal are shown, at least.
  const lowest = (policies.length ? policies : fleets).map(p => p.y).sort((a, b) => a - b);
  const middle = lowest[Math.floor((lowest.length - 1) / 2)];
  const low = Math.min(99, Math.max(lowest[0], Math.min(middle, 90) - 15));
  const span = 100 - low;
  const top = 100 + span * .06, bottom = Math.max(-2, low - span * .08);
  const hidden = all.filter(p => p.y < bottom).length;
  const right = Math.max(...all.map(p => p.x)) * 1.08 || 1;
  const element = place('trade');
  const [width, height] = [element.clientWidth - (narrow() ? 70 : 90), element.clientHeight - 84];
  const toPixels = p => [p.x / right * width, (top - p.y) / (top - bottom) * height];
  // Policies first: they are what the chart is about.
  const positions = labelPositions(all, toPixels, width);
  const [ink, soft, surface] = ['--ink', '--soft', '--surface'].map(css);
  const traces = [];
  if (fleets.length)
    traces.push({
      type: 'scatter', mode: 'lines+markers+text', name: 'static fleets, by replicas', x: fleets.map(p => p.x), y: fleets.map(p => p.y),
      text: fleets.map((p, i) => positions[policies.length + i] ? plain(p.label) : ''),
      textposition: fleets.map((p, i) => positions[policies.length + i] ?? 'top center'), textfont: {size: 11, color: soft},
      line: {color: soft, width: 1.2, dash: 'dot'}, marker: {size: 7, color: surface, line: {color: soft, width: 1.4}},
      customdata: fleets.map(p => tradeHover(p, `static fleet of ${p.label}`)), hovertemplate: '%{customdata}<extra></extra>',
    });
  policies.forEach((p, i) => traces.push({
    type: 'scatter', mode: 'markers+text', name: plain(p.label), x: [p.x], y: [p.y], showlegend: !narrow() || !positions[i],
    text: [positions[i] ? plain(p.label) : ''], textposition: positions[i] ?? 'top center',
    textfont: {size: 12, color: ink}, cliponaxis: p.y < bottom,
    marker: {size: p.result === chosen.policy ? 15 : 12, symbol: symbolOf(p.result), color: colourOf(p.result),
      line: {color: p.result === chosen.policy ? ink : surface, width: p.result === chosen.policy ? 1.8 : 1}},
    opacity: chosen.rivals.size && p.result !== chosen.policy && !chosen.rivals.has(p.result) ? .35 : 1,
    customdata: [tradeHover(p, p.label)], hovertemplate: '%{customdata}<extra></extra>',
  }));
  // On a phone a legend of all policies would cover the chart: it has only those without a label.
  const unlabelled = policies.filter((p, i) => !positions[i]).length;
  const legendRows = narrow() ? unlabelled + (fleets.length ? 1 : 0) : 1;
  draw('trade', traces, {
    hovermode: 'closest', dragmode: false, showlegend: unlabelled > 0 || fleets.length > 0,
    xaxis: {range: [0, right], fixedrange: true, title: {text: 'GPU-hours', font: {size: 11}, standoff: 8}, showgrid: true},
    yaxis: {range: [bottom, top], rangemode: 'normal', ticksuffix: ' %', title: {text: hidden ? `SLO attainment (${hidden} below)` : 'SLO attainment', font: {size: 11}, standoff: 6}},
    margin: {l: narrow() ? 52 : 62, r: 18, t: 14 + 20 * Math.max(1, legendRows), b: 46},
  }, (trace, point) => {
    const found = policies.find(p => plain(p.label) === trace.name);
    if (found) choose(found.result);
  });
}
