// What the server tells: one stream of events that is kept open, and what is known from it.

const POINTS_MAX = 1800;
const STALE_AFTER_S = 5;     // states come each second
const SILENT_AFTER_S = 20;   // a stream that says nothing for so long is dead, whatever the browser believes
const WAITS_S = [1, 2, 4, 8];

const live = {
  state: null,
  points: [],
  heardAt: null,       // of the last state, by the browser's monotonic clock
  connected: false,
  everConnected: false,
  gatewayMoved: null,  // when the gateway's own clock last went on: {boot, at, moved}
};

const moment = () => performance.now() / 1000;

// "connecting", "live", "stale" or "reconnecting"; and how old what is shown is.
function connection() {
  const old = live.heardAt === null ? null : moment() - live.heardAt;
  if (!live.connected) return {name: live.everConnected ? 'reconnecting' : 'connecting', old};
  return {name: old === null ? 'connecting' : old > STALE_AFTER_S ? 'stale' : 'live', old};
}

// Time goes on from point to point; what does not fit is left out.
function takePoints(points) {
  live.points = [];
  for (const point of list(points).slice(-POINTS_MAX)) takePoint(point);
}

function takePoint(point) {
  if (!known(record(point).at_s)) return;
  const last = live.points.at(-1);
  if (last && point.at_s === last.at_s) return;
  if (last && point.at_s < last.at_s) live.points = [];  // the planner began anew
  live.points.push(point);
  if (live.points.length > POINTS_MAX) live.points.shift();
}

function takeState(state) {
  if (!known(record(state).now_s)) return;
  live.state = state;
  live.heardAt = moment();
  setWall(state.now_s);
  const gateway = record(state.gateway), before = live.gatewayMoved;
  if (!known(gateway.now_s)) live.gatewayMoved = null;
  else if (!before || before.boot !== gateway.boot || before.at !== gateway.now_s || state.now_s < before.moved)
    live.gatewayMoved = {boot: gateway.boot, at: gateway.now_s, moved: state.now_s};
}

// Seconds for which the gateway has said nothing new; null: there is none.
const gatewaySilence = () => live.gatewayMoved && live.state ? live.state.now_s - live.gatewayMoved.moved : null;

// Calls `changed` after each event, and `connectionChanged` when the stream opens or breaks.
function openFeed(changed, connectionChanged) {
  let source, attempts = 0, lastWord, waiting = null;
  const on = (name, take) => source.addEventListener(name, event => {
    let value;
    try {
      value = JSON.parse(event.data);
    } catch (error) {
      return complain('an event that is no JSON: ' + error.message);
    }
    attempts = 0;
    lastWord = moment();
    take(value);
    changed();
  });
  const connect = () => {
    waiting = null;
    lastWord = moment();
    source = new EventSource('events');
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
      // A cut stream is opened again by the browser. An answer that is no stream (too many viewers, an error of a proxy)
      // ends it for good.
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
