/* streams.js - compute and communication on a time axis: microseconds, measured or estimated, or steps of
 * the schedule. A wait is exposed where compute has nothing to do until the collective ends. */
const streams = {
    zoomsY: false,
    full: streamsPlane,
    draw: drawStreams,
    find: findInStreams,
    pick: pickStreams
};
const LANE_NAMES = ["compute", "communication"];

function streamsPlane() {
    return {
        x0: 0,
        x1: Math.max(1e-9, g.time.kind === "steps" ? g.steps : g.time.total_us),
        y0: 0,
        y1: lanes()
    };
}

/* By collective: the first step that awaits it. */
function awaitedAt() {
    if (g.awaitedAt) return g.awaitedAt;
    g.awaitedAt = new Map();
    for (let i = 0; i < g.count; i++) {
        const collective = g.nodes.waits_for[i], step = g.nodes.step[i];
        if (collective >= 0 && step >= 0)
            g.awaitedAt.set(collective, Math.min(step, g.awaitedAt.get(collective) ?? step));
    }
    return g.awaitedAt;
}

/* Begin and end of a node on the axis. In steps, a collective lasts until it is awaited. */
function spanOfNode(i) {
    const begin = g.nodes.begin_us[i], step = g.nodes.step[i];
    if (g.time.kind !== "steps") return [begin, begin + Math.max(0, g.nodes.us[i])];
    return [step, g.nodes.lane[i] === 1 ? Math.max(step + 1, awaitedAt().get(i) ?? 0) : step + 1];
}

/* Whether a node makes compute busy; waits, and names of memory, do not. */
function isWork(i) {
    return g.nodes.lane[i] === 0 && g.nodes.waits_for[i] < 0 && g.nodes.kernel[i] !== 0;
}

function isOnAxis(i) {
    return g.nodes.step[i] >= 0 && g.nodes.last[i] === g.last &&
           (g.time.kind === "steps" || g.nodes.begin_us[i] >= 0);
}

function unitText(n) {
    return g.time.kind === "steps" ? n + (n === 1 ? " step" : " steps") : timeText(n);
}

/* In steps, a wait is exposed if no kernel runs between the begin of its collective and itself. */
function waitsInSteps() {
    const busy = new Float64Array(g.steps + 1), waits = []; // steps before that do work
    for (let i = 0; i < g.count; i++)
        if (isOnAxis(i) && isWork(i)) busy[g.nodes.step[i] + 1]++;
    for (let s = 0; s < g.steps; s++) busy[s + 1] += busy[s];
    for (const [collective, end] of awaitedAt()) {
        const begin = g.nodes.step[collective];
        const node = g.nodes.waits_for.findIndex((c, i) => c === collective && g.nodes.step[i] === end);
        if (busy[end] === busy[begin])
            waits.push({
                node, for: collective, begin, end
            });
    }
    return waits.sort((a, b) => a.begin - b.begin);
}

/* The waits of compute for collectives: {node, for, begin, end}; the end is that of the collective's own
 * time. */
function exposedWaits() {
    if (!g.waits) g.waits = g.time.kind === "steps" ? waitsInSteps() : waitsInTime();
    return g.waits;
}

function waitsInTime() {
    const compute = [], waits = [];
    for (let i = 0; i < g.count; i++)
        if (isOnAxis(i) && g.nodes.lane[i] === 0) compute.push(i);
    compute.sort((a, b) => spanOfNode(a)[0] - spanOfNode(b)[0]);
    let end = 0;
    for (const i of compute) {
        const [begin, stop] = spanOfNode(i), collective = g.nodes.waits_for[i];
        if (collective >= 0) {
            const until = Math.min(begin, spanOfNode(collective)[1]);
            if (until > end)
                waits.push({
                    node: i, for: collective, begin: end, end: until
                });
        }
        end = Math.max(end, stop);
    }
    return waits;
}

/* Collectives that are in flight at once lie one below the other. {of: by collective, count} */
function sublanes() {
    if (g.sublanes) return g.sublanes;
    const ends = [], of = new Map(), all = [];
    for (let i = 0; i < g.count; i++)
        if (isOnAxis(i) && g.nodes.lane[i] === 1) all.push(i);
    all.sort((a, b) => spanOfNode(a)[0] - spanOfNode(b)[0]);
    for (const i of all) {
        const [begin, end] = spanOfNode(i), free = ends.findIndex(last => last <= begin),
                      at = free < 0 ? ends.length : free;
        ends[at] = end;
        of.set(i, at);
    }
    return g.sublanes = {of, count: Math.max(1, ends.length)};
}

/* Without collectives there is no lane of communication. */
function lanes() {
    return sublanes().of.size ? 2 : 1;
}

function laneTop(lane) {
    return TOP + 8 + lane * (streams.height - TOP - BOTTOM) / lanes();
}

function laneHeight() {
    return (streams.height - TOP - BOTTOM) / lanes() - 16;
}

function drawStreamNode(pen, i) {
    const [begin, end] = spanOfNode(i), lane = g.nodes.lane[i], x = toX(streams, begin), isLit = lit.nodes[i];
    const w = Math.max(1, toX(streams, end) - x),
          h = lane === 1 ? laneHeight() / sublanes().count : laneHeight();
    const y = laneTop(lane) + (lane === 1 ? sublanes().of.get(i) * h : 0);
    if (x > streams.width || x + w < LEFT) return;
    const colour = lane === 1 ? "collective" : PHASE_COLOURS[g.nodes.phase[i]];
    const line = w > 3 ? colour + "-line" : "";
    pen.rect(x, y, w, h, w > 3 || lane === 0 ? colour : colour + "-line", isLit ? "lit" : line,
             isLit ? 3 : 1);
    if (w > 50 && h > 11)
        pen.text(Math.max(x, LEFT) + 4, y + h / 2 + 4, cut(texts[g.nodes.op[i]], Math.floor(w / 7)));
}

function drawStreams(pen) {
    const marked = [];
    for (let lane = 0; lane < lanes(); lane++)
        pen.text(LEFT - 6, laneTop(lane) + 14, lane ? "comm." : "compute", "quiet", "right");
    pen.clip(LEFT, 0, streams.width - LEFT - RIGHT, streams.height - BOTTOM);
    for (let i = 0; i < g.count; i++) {
        if (!isOnAxis(i)) continue;
        if (lit.nodes[i]) marked.push(i);
        else drawStreamNode(pen, i);
    }
    for (const i of marked) drawStreamNode(pen, i);
    for (const wait of exposedWaits()) {
        const x = toX(streams, wait.begin), w = Math.max(2, toX(streams, wait.end) - x);
        pen.rect(x, laneTop(0) - 7, w, 6, "exposed");
        pen.line(x, laneTop(0) - 4, x, laneTop(1), "exposed", true);
    }
    pen.unclip();
    const isSteps = g.time.kind === "steps";
    drawAxisX(streams, pen, v => isSteps ? String(v) : timeText(v), isSteps ? "step" : "time");
}

/* The node at a place. */
function findInStreams(x, y) {
    const lane = lanes() - 1 - Math.max(0, Math.min(lanes() - 1, Math.floor(y))),
          part = Math.floor((toY(streams, y) - laneTop(1)) / laneHeight() * sublanes().count);
    for (let i = 0; i < g.count; i++) {
        if (!isOnAxis(i) || g.nodes.lane[i] !== lane || (lane === 1 && part !== sublanes().of.get(i)))
            continue;
        const [begin, end] = spanOfNode(i);
        if (begin <= x && x < end) return {kind: "node", id: i};
    }
    return null;
}

function pickStreams(x, y, found) {
    if (found) select("node", found.id);
    else select(null);
}

/* ---- the collectives as a table ---- */

const WAIT_COLUMNS = [["collective"], ["bucket"], ["awaited by"], ["from"], ["for"], ["exposed"]];

function waiterOf(collective) {
    return g.nodes.waits_for.findIndex((c, i) => c === collective &&
                                                 g.nodes.step[i] === awaitedAt().get(collective));
}

function collectiveRows() {
    const exposed = new Map(exposedWaits().map(wait => [wait.for, wait.end - wait.begin])), rows = [];
    for (const i of sublanes().of.keys()) {
        const [begin, end] = spanOfNode(i), waiter = waiterOf(i), bucket = g.nodes.bucket[i];
        rows.push({
            key: "n" + i,
            isLit: lit.nodes[i],
            cells: [
                nodeName(g, i), bucket < 0 ? "" : texts[planOf(state.plan).buckets.name[bucket]],
                waiter < 0 ? "" : nodeName(g, waiter),
                g.time.kind === "steps" ? "step " + begin : timeText(begin), unitText(end - begin),
                exposed.has(i) ? unitText(exposed.get(i)) : ""
            ]
        });
    }
    return rows;
}

function drawWaits() {
    const waits = exposedWaits(), total = waits.reduce((sum, wait) => sum + wait.end - wait.begin, 0),
          collectives = sublanes().of.size;
    byId("streams-text").textContent = (g.time.kind === "steps" ? "In steps of the schedule"
                                                                : "Times are " + g.time.kind + ", " +
                                                                      timeText(g.time.total_us) + " in all") +
                                       "; " + countText(collectives, "collective");
    if (!collectives) {
        byId("waits").replaceChildren(element("p", {class: "quiet"}, "There are no collectives."));
        return;
    }
    const title = waits.length ? "Exposed: compute waits for " + countText(waits.length, "collective") +
                                     ", " + unitText(total)
                               : "No wait is exposed";
    byId("waits").replaceChildren(element("h3", {}, title),
                                  plainTable(WAIT_COLUMNS, collectiveRows().slice(0, MOST_ALIVE)));
    if (collectives > MOST_ALIVE)
        byId("waits").append(element("p", {class: "quiet"}, "and " + (collectives - MOST_ALIVE) + " more"));
}

function drawStreamsView() {
    streams.canvas.setAttribute("aria-label", "Streams of graph " + g.name + ": " + LANE_NAMES.join(" and ") +
                                                  " over time. The table below lists exposed waits.");
    drawChart(streams, canvasPen(streams.canvas));
    drawWaits();
}

function listenStreams() {
    streams.canvas = byId("streams");
    listenChart(streams);
    byId("streams-all").addEventListener("click", () => {
        showAll(streams);
        change("chart");
    });
}
