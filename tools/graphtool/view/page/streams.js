/* streams.js - compute and communication on a time axis: microseconds, measured or estimated, or steps of the schedule.
 * A wait is exposed where compute has nothing to do until the collective ends. */
const streams = {zoomsY: false, full: streamsPlane, draw: drawStreams, pick: pickStreams};
const LANE_NAMES = ["compute", "communication"];

function streamsPlane() {
    return {x0: 0, x1: Math.max(1e-9, g.time.kind === "steps" ? g.steps : g.time.total_us), y0: 0, y1: 2};
}

/* By collective: the first step that awaits it. */
function awaitedAt() {
    if (g.awaitedAt) return g.awaitedAt;
    g.awaitedAt = new Map();
    for (let i = 0; i < g.count; i++) {
        const collective = g.nodes.waits_for[i], step = g.nodes.step[i];
        if (collective >= 0 && step >= 0) g.awaitedAt.set(collective, Math.min(step, g.awaitedAt.get(collective) ?? step));
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
    return g.nodes.step[i] >= 0 && g.nodes.last[i] === g.last && (g.time.kind === "steps" || g.nodes.begin_us[i] >= 0);
}

function unitText(n) {
    return g.time.kind === "steps" ? n + (n === 1 ? " step" : " steps") : timeText(n);
}

/* In steps, a wait is exposed if no kernel runs between the begin of its collective and itself. */
function waitsInSteps() {
    const busy = new Float64Array(g.steps + 1), waits = []; // steps before that do work
    for (let i = 0; i < g.count; i++) if (isOnAxis(i) && isWork(i)) busy[g.nodes.step[i] + 1]++;
    for (let s = 0; s < g.steps; s++) busy[s + 1] += busy[s];
    for (const [collective, end] of awaitedAt()) {
        const begin = g.nodes.step[collective];
        const node = g.nodes.waits_for.findIndex((c, i) => c === collective && g.nodes.step[i] === end);
        if (busy[end] === busy[begin]) waits.push({node, for: collective, begin, end});
    }
    return waits.sort((a, b) => a.begin - b.begin);
}

/* The waits of compute for collectives: {node, for, begin, end}; the end is that of the collective's own time. */
function exposedWaits() {
    if (!g.waits) g.waits = g.time.kind === "steps" ? waitsInSteps() : waitsInTime();
    return g.waits;
}

function waitsInTime() {
    const compute = [], waits = [];
    for (let i = 0; i < g.count; i++) if (isOnAxis(i) && g.nodes.lane[i] === 0) compute.push(i);
    compute.sort((a, b) => spanOfNode(a)[0] - spanOfNode(b)[0]);
    let end = 0;
    for (const i of compute) {
        const [begin, stop] = spanOfNode(i), collective = g.nodes.waits_for[i];
        if (collective >= 0) {
            const until = Math.min(begin, spanOfNode(collective)[1]);
            if (until > end) waits.push({node: i, for: collective, begin: end, end: until});
        }
        end = Math.max(end, stop);
    }
    return waits;
}

function laneTop(lane) {
    return TOP + 8 + lane * (streams.height - TOP - BOTTOM) / 2;
}

function drawStreamNode(pen, i) {
    const [begin, end] = spanOfNode(i), lane = g.nodes.lane[i], x = toX(streams, begin);
    const w = Math.max(1, toX(streams, end) - x), h = (streams.height - TOP - BOTTOM) / 2 - 16, isLit = lit.nodes[i];
    if (x > streams.width || x + w < LEFT) return;
    const colour = lane === 1 ? "collective" : PHASE_COLOURS[g.nodes.phase[i]];
    pen.rect(x, laneTop(lane), w, h, w > 3 ? colour : colour + "-line", isLit ? "lit" : w > 3 ? colour + "-line" : "", isLit ? 3 : 1);
    if (w > 50) pen.text(Math.max(x, LEFT) + 4, laneTop(lane) + h / 2 + 4, cut(texts[g.nodes.op[i]], Math.floor(w / 7)));
}

function drawStreams(pen) {
    const marked = [];
    for (const lane of [0, 1]) pen.text(LEFT - 6, laneTop(lane) + 14, lane ? "comm." : "compute", "quiet", "right");
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
    drawAxisX(streams, pen, v => g.time.kind === "steps" ? String(v) : timeText(v));
}

function pickStreams(x, y) {
    const lane = y < 1 ? 1 : 0;
    for (let i = 0; i < g.count; i++) {
        const [begin, end] = spanOfNode(i);
        if (isOnAxis(i) && g.nodes.lane[i] === lane && begin <= x && x < end) {
            select("node", i);
            return;
        }
    }
    select(null);
}

/* ---- the exposed waits as a table ---- */

function drawWaits() {
    const waits = exposedWaits(), total = waits.reduce((sum, wait) => sum + wait.end - wait.begin, 0);
    const isSteps = g.time.kind === "steps";
    const rows = waits.map(wait => ({
        key: "n" + wait.for, isLit: lit.nodes[wait.for],
        cells: [nodeName(g, wait.for), nodeName(g, wait.node), unitText(wait.begin), unitText(wait.end - wait.begin)],
    }));
    let collectives = 0;
    for (let i = 0; i < g.count; i++) collectives += isOnAxis(i) && g.nodes.lane[i] === 1;
    byId("streams-text").textContent = (isSteps ? "In steps of the schedule" : "Times are " + g.time.kind + ", " + timeText(g.time.total_us) + " in all") +
        "; " + countText(collectives, "collective");
    if (!rows.length) {
        byId("waits").replaceChildren(element("p", {class: "quiet"}, collectives ? "No wait is exposed." : "One rank: there are no collectives."));
        return;
    }
    byId("waits").replaceChildren(element("h3", {}, "Exposed: compute waits for " + countText(rows.length, "collective") + ", " + unitText(total)),
        plainTable([["collective"], ["awaited by"], ["from"], ["for"]], rows));
}

function drawStreamsView() {
    streams.canvas.setAttribute("aria-label", "Streams of graph " + g.name + ": " + LANE_NAMES.join(" and ") + " over time. The table below lists exposed waits.");
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
