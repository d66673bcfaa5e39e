'use strict';
// The data, and what Plotly needs of names and colours.

const data = JSON.parse(document.getElementById('report-data').textContent);
// Of several deployments, the page shows the one that its address names, or the first.
const several = data.deployments ?? [];
const named = new URLSearchParams(location.search).get('deployment');
const report = several.find(each => each.name === named) ?? several[0] ?? data;

// Plotly reads tags and entities in its labels.
const plain = text => String(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

function wrapped(text, width = 58) {
  const lines = [''];
  for (const word of String(text).split(' ')) {
    if (lines.at(-1) && lines.at(-1).length + word.length >= width) lines.push('');
    lines[lines.length - 1] += (lines.at(-1) ? ' ' : '') + word;
  }
  return lines.map(plain).join('<br>');
}

// One colour and one symbol per policy, everywhere. Hues in the order of Okabe and Ito, with steps of lightness between
// neighbours, so that they differ without red and green; a symbol or a label always says the same.
const COLOURS = {
  light: ['#0067a8', '#c8540a', '#00845f', '#a8488a', '#97700a', '#5346a6', '#117686', '#8c2a55', '#66701a', '#8a5a33'],
  dark: ['#5fb0ee', '#f2925a', '#45c79f', '#e08fc8', '#dfb548', '#a9a0f5', '#58bfcc', '#dd7ba6', '#b4c158', '#cfa078'],
};
const STATIC_COLOUR = {light: '#6a7280', dark: '#a2abb8'};
const SYMBOLS = ['circle', 'square', 'diamond', 'triangle-up', 'star', 'hexagon', 'pentagon', 'triangle-down', 'cross', 'x'];

const themeName = () => document.documentElement.dataset.theme;
// Known policies keep their colour in every report, whatever their rank; others take the free places in the order of their names.
const KNOWN = ['penstock', 'dynamo-throughput', 'hpa-rate', 'clairvoyant', 'keda-tokens', 'kpa', 'llmd-slo', 'hpa-concurrency', 'apa', 'dynamo-latency',
  'llmd-saturation-v1', 'llmd-saturation-v2', 'dynamo-load'];
const places = () => {
  const scaled = report.results.filter(result => result.policy !== 'static');
  const names = [...KNOWN, ...[...new Set(scaled.map(result => result.policy))].filter(name => !KNOWN.includes(name)).sort()];
  const taken = new Set();
  const inOrder = [...scaled].sort((a, b) => names.indexOf(a.policy) - names.indexOf(b.policy) || (a.label < b.label ? -1 : 1));
  return new Map(inOrder.map(result => {
    let place = names.indexOf(result.policy);
    while (taken.has(place)) ++place;  // Several runs of one policy.
    taken.add(place);
    return [result, place];
  }));
};
const placeOf = places();

function colourOf(result) {
  const colours = COLOURS[themeName()];
  return placeOf.has(result) ? colours[placeOf.get(result) % colours.length] : STATIC_COLOUR[themeName()];
}
const symbolOf = result =>
  placeOf.has(result) ? SYMBOLS[(placeOf.get(result) + Math.floor(placeOf.get(result) / SYMBOLS.length)) % SYMBOLS.length] : 'circle-open';
