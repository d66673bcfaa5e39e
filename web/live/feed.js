// Receives the event stream of the server, or the data of a report, and keeps it.

const POINTS_MAX = 1800;
const HISTORY_MAX = 7 * 1440;
const HISTORY_STEP_S = 60;   // Points of the history are this far apart.
const STALE_AFTER_S = 5;     // The server sends a state every second.
const SILENT_AFTER_S = 20;   // A stream without events for this time is replaced.
const WAITS_S = [1, 2, 4, 8];

const live = {
  state: null,
  points: [],
  history: [],         // Older points, one a minute, since the last report.
  isReport: false,
  receivedAt: null,    // Time of the last state on the browser's monotonic clock.
  connected: false,
  everConnected: false,
  gatewayMoved: null,  // When the clock of the gateway last advanced: {boot, at, moved}.
};

const moment = () => performance.now() / 1000;

// Returns "connecting", "live", "stale" or "reconnecting", and the age of the data.
function connection() {
  const old = live.receivedAt === null ? null : moment() - live.receivedAt;
  if (!live.connected) return {name: live.everConnected ? 'reconnecting' : 'connecting', old};
  return {name: old === null ? 'connecting' : old > STALE_AFTER_S ? 'stale' : 'live', old};
}

const takeHistory = points => { live.history = list(points).filter(point => known(record(point).at_s)).slice(-HISTORY_MAX); };

// Points must ascend in time; others are dropped.
function takePoints(points) {
  live.points = [];
  for (const point of list(points).slice(-POINTS_MAX)) takePoint(point);
}

function takePoint(point) {
  if (!known(record(point).at_s)) return;
  const last = live.points.at(-1);
  if (last && point.at_s === last.at_s) return;
  if (last && point.at_s < last.at_s) live.points = [];  // The planner has restarted.
  live.points.push(point);
  if (live.points.length > POINTS_MAX) live.points.shift();
  if (point.at_s < (live.history.at(-1)?.at_s ?? -Infinity) + HISTORY_STEP_S) return;
  live.history.push(point);
  if (live.history.length > HISTORY_MAX) live.history.shift();
}

// The points of the last `length_s` seconds. Those of the history come before those of the last hour.
function pointsOf(length_s, end_s) {
  const begin = live.points.length ? live.points[0].at_s : Infinity;
  const all = length_s > 3600 ? [...live.history, ...live.points.slice(-1)] : [...live.history.filter(point => point.at_s < begin), ...live.points];
  return all.filter(point => point.at_s >= end_s - length_s && point.at_s <= end_s);
}

// Takes the data of a report; returns whether this page is one.
function takeReport(element) {
  if (!element) return false;
  const report = record(JSON.parse(element.textContent));
  live.isReport = true;
  takeHistory(report.history);
  takePoints(report.points);
  live.state = record(report.state);
  setWall(live.state.now_s, report.unix_s);
  return true;
}

function takeState(state) {
  if (!known(record(state).now_s)) return;
  live.state = state;
  live.receivedAt = moment();
  setWall(state.now_s);
  const gateway = record(state.gateway), before = live.gatewayMoved;
  if (!known(gateway.now_s)) live.gatewayMoved = null;
  else if (!before || before.boot !== gateway.boot || before.at !== gateway.now_s || state.now_s < before.moved)
    live.gatewayMoved = {boot: gateway.boot, at: gateway.now_s, moved: state.now_s};
}

// Seconds since the last update of the gateway; null without a gateway.
const gatewayAge = () => live.gatewayMoved && live.state ? live.state.now_s - live.gatewayMoved.moved : null;

// Calls `changed` after each event, and `connectionChanged` when the stream opens or breaks.
function openFeed(changed, connectionChanged) {
  let source, attempts = 0, lastWord, waiting = null;
  const on = (name, take) => source.addEventListener(name, event => {
    let value;
    try {
      value = JSON.parse(event.data);
    } catch (error) {
      return reportError('an event that is no JSON: ' + error.message);
    }
    attempts = 0;
    lastWord = moment();
    take(value);
    changed();
  });
  const connect = () => {
    waiting = null;
    lastWord = moment();
    source = new EventSource('events' + location.search);
    on('history', takeHistory);
    on('points', takePoints);
    on('point', takePoint);
    on('state', takeState);
    source.onopen = () => {
      live.connected = live.everConnected = true;
      connectionChanged();
    };
    source.onerror = () => {
      live.connected = false;
      connectionChanged();
      // The browser reopens a cut stream. After an answer that is not a stream (too many viewers, a proxy error) it
      // does not.
      if (source.readyState === EventSource.CLOSED) again();
    };
  };
  const again = () => {
    source.close();
    live.connected = false;
    if (waiting === null)
      waiting = setTimeout(connect, 1000 * WAITS_S[Math.min(attempts++, WAITS_S.length - 1)]);
  };
  setInterval(() => {
    if (waiting === null && moment() - lastWord > SILENT_AFTER_S) {
      again();
      connectionChanged();
    }
  }, 1000);
  connect();
}
