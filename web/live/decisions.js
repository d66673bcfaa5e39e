// The list of decisions, newest first, with their evidence. An entry never changes, so its element is reused while it is
// listed: open entries stay open, and the focus stays.

const decisions = {entries: new Map(), filter: '', changesOnly: false, wall: 0};

const keyOf = decision => JSON.stringify([decision.at_s, clip(decision.pool, 400), decision.current, decision.target, clip(decision.reason)]);

function showDecisions(state) {
  const place = byId('decision-list'), several = list(state.pools).length > 1;
  const pools = list(state.pools).map(pool => text(record(pool).name));
  const wanted = new Map();
  for (const decision of list(state.decisions).map(record)) {
    const key = keyOf(decision);
    if (!wanted.has(key)) wanted.set(key, decision);
  }
  const anew = decisions.wall !== wall.changes;
  decisions.wall = wall.changes;
  for (const [key, entry] of decisions.entries)
    if (anew || !wanted.has(key)) {
      entry.item.remove();
      decisions.entries.delete(key);
    }
  // New entries are inserted in front; existing ones keep their place.
  let before = place.firstElementChild;
  for (const [key, decision] of wanted) {
    const there = decisions.entries.get(key);
    if (there) {
      if (there.item === before) before = before.nextElementSibling;
      else place.insertBefore(there.item, before);
      setText(there.since, ageOf(decision, state));
      continue;
    }
    const entry = buildDecision(decision, several, pools);
    setText(entry.since, ageOf(decision, state));
    decisions.entries.set(key, entry);
    place.insertBefore(entry.item, before);
  }
  filterDecisions();
}

const ageOf = (decision, state) => ago(known(decision.at_s) ? state.now_s - decision.at_s : null);

const foundIn = decision => [decision.pool, decision.reason, nameText(text(decision.reason)), decision.limited_by,
  nameText(text(decision.limited_by)), decision.cause, nameText(text(decision.cause)), decision.phase, decision.sentence,
  decision.diagnosis].map(part => text(part)).join(' ').toLowerCase();

function filterDecisions() {
  let shown = 0;
  for (const entry of decisions.entries.values()) {
    const fits = (!decisions.changesOnly || entry.changes) && entry.words.includes(decisions.filter);
    entry.item.hidden = !fits;
    shown += fits;
  }
  const all = decisions.entries.size;
  setText(byId('decision-count'), all === 0 ? '' : shown === all ? count(all) : `${shown} of ${all}`);
  byId('decision-none').hidden = shown > 0;
  setText(byId('decision-none'), all === 0 ? 'No decision yet.' : 'No decision matches the filter.');
}

function buildDecision(decision, several, pools) {
  const {current, target} = decision, changes = current !== target;
  const direction = !changes ? 'hold' : target > current ? 'up' : 'down';
  const step = changes ? `${count(current)} → ${count(target)}` : `holds ${count(target)}`;
  const chip = (kind, value) => value ? make('span', {class: 'chip ' + kind}, make('bdi', {}, value)) : null;
  const since = make('span');
  const summary = make('summary', {},
    make('span', {class: 'step ' + direction}, step),
    make('span', {class: 'why'}, make('bdi', {}, clippedName(decision.reason) || NOTHING)),
    make('span', {class: 'chips'},
      make('span', {class: 'at', title: 'planner time ' + (known(decision.at_s) ? clock(decision.at_s) : NOTHING)},
        timeOfDay(decision.at_s), ' · ', since),
      several ? chip('pool', clip(decision.pool, 40)) : null,
      chip('limit', decision.limited_by ? 'limited by ' + clippedName(decision.limited_by) : ''),
      chip('cause', decision.cause && decision.cause !== 'none' ? clippedName(decision.cause) : '')));
  const detail = make('details', {}, summary);
  // The body is built when the entry is opened, because most are never opened.
  detail.addEventListener('toggle', () => detail.append(decisionBody(decision, pools)), {once: true});
  return {item: make('li', {class: direction}, detail), changes, words: foundIn(decision), since};
}

function decisionBody(decision, pools) {
  const body = make('div', {class: 'body'});
  const part = (title, ...content) => body.append(make('h4', {}, title), ...content);
  const paragraph = value => make('p', {}, make('bdi', {}, unbroken(clip(value, 1200))));
  if (decision.diagnosis) part('Diagnosis', paragraph(decision.diagnosis));
  if (decision.limited_by) part('Limited by', paragraph(clippedName(decision.limited_by)));
  if (decision.would_change) part('What would change this decision', paragraph(decision.would_change));
  const evidence = list(decision.evidence).slice(0, 100).map(record);
  // The sentence repeats the evidence, so only one of them is shown.
  if (evidence.length) part('Evidence', evidenceTable(evidence));
  else if (decision.sentence) part('Evidence', paragraph(decision.sentence));
  const candidates = list(decision.candidates).slice(0, 100).map(record);
  if (candidates.length) part('Simulated fleets', candidateTable(candidates, pools));
  if (decision.phase) part('Phase', paragraph(decision.phase));
  if (!body.childNodes.length) body.append(paragraph('No further details.'));
  return body;
}

function evidenceValue(value, unit) {
  if (!known(value)) return NOTHING;
  if (unit === 'share') return share(value);
  if (unit === 'ms') return milliseconds(value);
  if (unit === 's') return seconds(value);
  if (unit === 'times') return 'x' + quantity(value);
  return (Number.isInteger(value) ? count(value) : quantity(value)) + (unit ? SPACE + clip(unit, 24) : '');
}

function plainTable(caption, heads, rows) {
  const head = make('tr', {}, ...heads.map((title, index) =>
    make('th', {scope: 'col', class: index ? '' : 'left'}, title)));
  return make('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption},
    make('table', {}, make('caption', {class: 'unseen'}, caption), make('thead', {}, head), make('tbody', {}, ...rows)));
}

const evidenceTable = evidence => plainTable('Evidence', ['name', 'value'], evidence.map(each =>
  make('tr', {}, make('th', {scope: 'row', class: 'left'}, make('bdi', {}, clippedName(each.name))),
    make('td', {}, make('bdi', {}, evidenceValue(each.value, each.unit))))));

function candidateTable(candidates, pools) {
  const named = pools.length > 1 ? pools.map(pool => clip(pool, 24)) : ['replicas'];
  return plainTable('Simulated fleets', [...named, 'SLO attainment', 'TTFT', 'ITL', ''], candidates.map(each => {
    const replicas = Object.values(record(each.replicas)).slice(0, named.length).map(count);
    return make('tr', {class: each.chosen ? 'chosen' : ''},
      make('th', {scope: 'row', class: 'left'}, replicas[0]), ...replicas.slice(1).map(value => make('td', {}, value)),
      ...[each.slo_attainment, each.ttft_attainment, each.itl_attainment].map(value => make('td', {}, share(value))),
      make('td', {class: 'left'}, each.chosen ? '✓ chosen' : ''));
  }));
}
