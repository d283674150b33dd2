/* memory.js - the memory map: each buffer of the arena is a rectangle, from the step that makes it to the
 * last that needs it, at its addresses. Below: what is alive at a step. */
const memory = {
    zoomsY: true,
    full: memoryPlane,
    draw: drawMemory,
    find: findMemory,
    pick: pickMemory
};
const PHASE_COLOURS = ["forward", "backward", "update"];

/* x: steps; y: bytes. */
function memoryPlane() {
    return {x0: 0, x1: g.steps, y0: 0, y1: Math.max(1, g.arena)};
}

function colourOfBuffer(v) {
    const i = g.values.node[v];
    return g.nodes.lane[i] === 1 ? "collective" : PHASE_COLOURS[g.nodes.phase[i]];
}

/* Bytes from `offset` on, in the steps from `from` until before `end`. */
function drawBytes(pen, from, end, offset, bytes, colour, text, isLit) {
    const x = toX(memory, from), y = toY(memory, offset + bytes);
    const w = Math.max(1, toX(memory, end) - x), h = Math.max(1, toY(memory, offset) - y);
    if (x > memory.width || y > memory.height || x + w < LEFT || y + h < 0) return;
    const hasLine = w > 3 && h > 3;
    const line = hasLine ? colour + "-line" : "";
    pen.rect(x, y, w, h, hasLine || isLit ? colour : colour + "-line", isLit ? "lit" : line, isLit ? 3 : 1);
    if (w > 60 && h > 13)
        pen.text(Math.max(x, LEFT) + 4, Math.min(y + h / 2 + 4, memory.height - BOTTOM - 3),
                 cut(text, Math.floor(w / 7)));
}

function drawBuffer(pen, v, isLit) {
    const {from, until, offset, bytes, node} = g.values;
    drawBytes(pen, from[v], until[v] + 1, offset[v], bytes[v], colourOfBuffer(v), texts[g.nodes.op[node[v]]],
              isLit);
}

/* Scratch of kernels, in the step of their nodes. */
function drawWorkspaces(pen) {
    const {node, offset, bytes} = g.workspaces;
    for (let at = 0; at < node.length; at++) {
        const step = g.nodes.step[node[at]];
        drawBytes(pen, step, step + 1, offset[at], bytes[at], "memory", "workspace", lit.nodes[node[at]]);
    }
}

function drawLineAt(pen, step, colour, text) {
    const x = toX(memory, step + 0.5);
    if (x < LEFT || x > memory.width - RIGHT) return;
    pen.line(x, TOP - 4, x, memory.height - BOTTOM, colour, true);
    pen.text(x, TOP - 6, text, colour, "center");
}

/* Beside buffers that are alive at the peak, and tall, but too thin for a text in them; the largest ones, and
 * none over another. */
function drawLabels(pen) {
    const taken = [], {from, until, offset, bytes, node} = g.values, ends = TOP + 12;
    for (const v of aliveAt(g, g.peak_step)) {
        const x = toX(memory, until[v] + 1), y = toY(memory, offset[v] + bytes[v] / 2) + 4;
        const isThin = x - toX(memory, from[v]) <= 60,
              height = toY(memory, offset[v]) - toY(memory, offset[v] + bytes[v]);
        if (!isThin || height <= 13 || y < ends || x < LEFT || taken.some(other => Math.abs(other - y) < 14))
            continue;
        const text = texts[g.nodes.op[node[v]]] + ", " + bytesText(bytes[v]), w = 5.6 * text.length + 6;
        const left = x + 3 + w > memory.width - RIGHT ? toX(memory, from[v]) - w - 3 : x + 3;
        pen.rect(left, y - 11, w, 14, "ground", "line");
        pen.text(left + 3, y, text);
        taken.push(y);
    }
}

function drawMemory(pen) {
    const marked = [];
    drawAxisY(memory, pen, "address");
    pen.clip(LEFT, 0, memory.width - LEFT - RIGHT, memory.height - BOTTOM);
    for (let v = 0; v < g.values.node.length; v++) {
        if (!isBuffer(g, v)) continue;
        if (lit.buffers[v]) marked.push(v);
        else drawBuffer(pen, v, false);
    }
    drawWorkspaces(pen);
    for (const v of marked) drawBuffer(pen, v, true);
    drawLabels(pen);
    pen.unclip();
    drawAxisX(memory, pen, step => String(step), "step");
    if (g.deferred >= 0) drawLineAt(pen, g.deferred - 0.5, "quiet", "deferred");
    if (g.peak_step >= 0) drawLineAt(pen, g.peak_step, "exposed", "peak");
    if (state.step !== g.peak_step) drawLineAt(pen, state.step, "focus", "step " + state.step);
}

function stepAt(x) {
    return Math.max(0, Math.min(g.steps - 1, Math.floor(x)));
}

/* The buffer or the workspace at a place. */
function findMemory(x, y) {
    const step = stepAt(x), {offset, bytes, from, until} = g.values, scratch = g.workspaces;
    for (let v = 0; v < offset.length; v++)
        if (from[v] <= step && step <= until[v] && offset[v] <= y && y < offset[v] + bytes[v] &&
            isBuffer(g, v))
            return {kind: "value", id: v};
    const w = scratch.node.findIndex((i, at) => g.nodes.step[i] === step && scratch.offset[at] <= y &&
                                                y < scratch.offset[at] + scratch.bytes[at]);
    return w < 0 ? null : {kind: "node", id: scratch.node[w]};
}

function pickMemory(x, y, found) {
    if (found) select(found.kind, found.id);
    else select(null);
    state.step = stepAt(x);
}

/* ---- what is alive at the step ---- */

const MOST_ALIVE = 100;

function aliveRow(key, name, i, bytes, from, until, isLit) {
    return {
        key,
        isLit,
        cells: [name, texts[g.nodes.op[i]], texts[g.scopes.path[g.nodes.scope[i]]], bytes, from, until]
    };
}

/* Buffers and workspaces, the largest first. */
function aliveRows() {
    const {name, node, bytes, from, until} = g.values, scratch = g.workspaces, step = state.step;
    const rows = aliveAt(g, step).map(
        v => aliveRow("v" + v, texts[name[v]], node[v], bytes[v], from[v], until[v], lit.buffers[v]));
    scratch.node.forEach((i, at) => {
        if (g.nodes.step[i] === step)
            rows.push(aliveRow("n" + i, "workspace", i, scratch.bytes[at], step, step, lit.nodes[i]));
    });
    return rows.sort((a, b) => b.cells[3] - a.cells[3]);
}

function drawAlive() {
    const alive = aliveRows(), total = alive.reduce((sum, row) => sum + row.cells[3], 0),
          rows = alive.slice(0, MOST_ALIVE);
    const title = "Alive at step " + state.step + ": " + countText(alive.length, "buffer") + ", " +
                  bytesText(total) + (g.peak_step === state.step ? ", the peak" : "");
    byId("alive").replaceChildren(
        element("h3", {}, title),
        plainTable(
            [["value"], ["made by"], ["scope"], ["bytes", "bytes"], ["from", "number"], ["until", "number"]],
            rows));
    if (alive.length > MOST_ALIVE)
        byId("alive").append(
            element("p", {class: "quiet"}, "and " + (alive.length - MOST_ALIVE) + " smaller ones"));
}

function drawMemoryView() {
    const slider = byId("step");
    slider.max = g.steps - 1;
    slider.value = state.step;
    byId("step-name").value = state.step + " of " + (g.steps - 1);
    memory.canvas.setAttribute("aria-label", "Memory map of graph " + g.name + ": " + bytesText(g.arena) +
                                                 " over " + g.steps + " steps, the most at step " +
                                                 g.peak_step +
                                                 ". The table below lists what is alive at a step.");
    drawChart(memory, canvasPen(memory.canvas));
    drawAlive();
}

function listenMemory() {
    memory.canvas = byId("memory");
    listenChart(memory);
    byId("step").addEventListener("input", e => {
        state.step = Number(e.target.value);
        change("lit");
    });
    byId("to-peak").addEventListener("click", () => {
        state.step = Math.max(0, g.peak_step);
        change("lit");
    });
    byId("memory-all").addEventListener("click", () => {
        showAll(memory);
        change("chart");
    });
}
