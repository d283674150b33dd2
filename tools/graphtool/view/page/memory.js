/* memory.js - the memory map: each buffer of the arena is a rectangle, from the step that makes it to the last that needs
 * it, at its addresses. Below: what is alive at a step. */
const memory = {zoomsY: true, full: memoryPlane, draw: drawMemory, pick: pickMemory};
const PHASE_COLOURS = ["forward", "backward", "update"];

/* x: steps; y: bytes. */
function memoryPlane() {
    return {x0: 0, x1: g.steps, y0: 0, y1: Math.max(1, g.arena)};
}

function colourOfBuffer(v) {
    const i = g.values.node[v];
    return g.nodes.lane[i] === 1 ? "collective" : PHASE_COLOURS[g.nodes.phase[i]];
}

function drawBuffer(pen, v, isLit) {
    const {from, until, offset, bytes} = g.values;
    const x = toX(memory, from[v]), y = toY(memory, offset[v] + bytes[v]);
    const w = Math.max(1, toX(memory, until[v] + 1) - x), h = Math.max(1, toY(memory, offset[v]) - y);
    if (x > memory.width || y > memory.height || x + w < LEFT || y + h < 0) return;
    const colour = colourOfBuffer(v), hasLine = w > 3 && h > 3;
    pen.rect(x, y, w, h, hasLine || isLit ? colour : colour + "-line", isLit ? "lit" : hasLine ? colour + "-line" : "", isLit ? 3 : 1);
    if (w > 60 && h > 13) pen.text(Math.max(x, LEFT) + 4, Math.min(y + h / 2 + 4, memory.height - BOTTOM - 3), cut(texts[g.nodes.op[g.values.node[v]]], Math.floor(w / 7)));
}

function drawLineAt(pen, step, colour, text) {
    const x = toX(memory, step + 0.5);
    if (x < LEFT || x > memory.width - RIGHT) return;
    pen.line(x, TOP - 4, x, memory.height - BOTTOM, colour, true);
    pen.text(x, TOP - 6, text, colour, "center");
}

function drawMemory(pen) {
    const marked = [];
    drawAxisY(memory, pen);
    pen.clip(LEFT, 0, memory.width - LEFT - RIGHT, memory.height - BOTTOM);
    for (let v = 0; v < g.values.node.length; v++) {
        if (!isBuffer(g, v)) continue;
        if (lit.buffers[v]) marked.push(v);
        else drawBuffer(pen, v, false);
    }
    for (const v of marked) drawBuffer(pen, v, true);
    pen.unclip();
    drawAxisX(memory, pen, step => String(step));
    if (g.peak_step >= 0) drawLineAt(pen, g.peak_step, "exposed", "peak");
    if (state.step !== g.peak_step) drawLineAt(pen, state.step, "focus", "step " + state.step);
}

/* The buffer under the pointer, and its step. */
function pickMemory(x, y) {
    const {from, until, offset, bytes} = g.values;
    state.step = Math.max(0, Math.min(g.steps - 1, Math.floor(x)));
    const step = state.step;
    for (let v = 0; v < g.values.node.length; v++)
        if (isBuffer(g, v) && from[v] <= step && step <= until[v] && offset[v] <= y && y < offset[v] + bytes[v]) {
            select("value", v);
            state.step = step;
            return;
        }
    select(null);
}

/* ---- what is alive at the step ---- */

const MOST_ALIVE = 100;

function drawAlive() {
    const alive = aliveAt(g, state.step), total = alive.reduce((sum, v) => sum + g.values.bytes[v], 0);
    const rows = alive.slice(0, MOST_ALIVE).map(v => {
        const i = g.values.node[v];
        return {key: "v" + v, cells: [texts[g.values.name[v]], texts[g.nodes.op[i]], texts[g.scopes.path[g.nodes.scope[i]]], g.values.bytes[v],
                                      g.values.from[v], g.values.until[v]], isLit: lit.buffers[v]};
    });
    const title = "Alive at step " + state.step + ": " + countText(alive.length, "buffer") + ", " + bytesText(total) +
        (g.peak_step === state.step ? ", the peak" : "");
    byId("alive").replaceChildren(element("h3", {}, title),
        plainTable([["value"], ["made by"], ["scope"], ["bytes", "bytes"], ["from", "number"], ["until", "number"]], rows));
    if (alive.length > MOST_ALIVE) byId("alive").append(element("p", {class: "quiet"}, "and " + (alive.length - MOST_ALIVE) + " smaller ones"));
}

function drawMemoryView() {
    const slider = byId("step");
    slider.max = g.steps - 1;
    slider.value = state.step;
    byId("step-name").value = state.step + " of " + (g.steps - 1);
    memory.canvas.setAttribute("aria-label", "Memory map of graph " + g.name + ": " + bytesText(g.arena) + " over " + g.steps +
        " steps, the most at step " + g.peak_step + ". The table below lists what is alive at a step.");
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
