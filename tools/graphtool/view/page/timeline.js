/* timeline.js - what memory map and streams share: a canvas that shows a part of a plane, moved by wheel,
 * drag and keys. A chart: {canvas, zoomsY, full(): all of the plane, span: the part that is shown,
 * draw(pen), find(x, y): the selection that lies there, in the plane's units, or null, pick(x, y, found):
 * what a click there does}. */
const LEFT = 74, RIGHT = 34, TOP = 16, BOTTOM = 26; // pixels around the plane

function showAll(chart) {
    chart.span = chart.full();
    chart.shown = g;
}

function toX(chart, v) {
    return LEFT + (v - chart.span.x0) / (chart.span.x1 - chart.span.x0) * (chart.width - LEFT - RIGHT);
}

/* Upwards, as addresses are read. */
function toY(chart, v) {
    return chart.height - BOTTOM -
           (v - chart.span.y0) / (chart.span.y1 - chart.span.y0) * (chart.height - TOP - BOTTOM);
}

function fromX(chart, x) {
    return chart.span.x0 + (x - LEFT) / (chart.width - LEFT - RIGHT) * (chart.span.x1 - chart.span.x0);
}

function fromY(chart, y) {
    return chart.span.y0 +
           (chart.height - BOTTOM - y) / (chart.height - TOP - BOTTOM) * (chart.span.y1 - chart.span.y0);
}

/* One axis of the span, by a factor around `at`, within all that there is. */
function zoomAxis(chart, low, high, at, by) {
    const full = chart.full(), length = (chart.span[high] - chart.span[low]) * by;
    const part = (at - chart.span[low]) / (chart.span[high] - chart.span[low]);
    if (length < (full[high] - full[low]) * 1e-5) return;
    chart.span[low] = Math.max(full[low], at - part * length);
    chart.span[high] = Math.min(full[high], chart.span[low] + length);
}

function moveAxis(chart, low, high, by) {
    const full = chart.full();
    const shift = Math.max(full[low] - chart.span[low], Math.min(full[high] - chart.span[high], by));
    chart.span[low] += shift;
    chart.span[high] += shift;
}

/* A number that people count in, near `n`: 1, 2 or 5 times a power of ten; for bytes, of two. */
function niceStep(n, isBytes) {
    if (n <= 1) return 1;
    if (isBytes) return Math.pow(2, Math.ceil(Math.log2(n)));
    const power = Math.pow(10, Math.floor(Math.log10(n)));
    return power * [1, 2, 5, 10].find(f => f * power >= n);
}

function drawAxisX(chart, pen, textOf, name) {
    const step = niceStep((chart.span.x1 - chart.span.x0) / Math.max(2, (chart.width - LEFT) / 90));
    for (let v = Math.ceil(chart.span.x0 / step) * step; v <= chart.span.x1; v += step) {
        pen.line(toX(chart, v), chart.height - BOTTOM, toX(chart, v), chart.height - BOTTOM + 4, "quiet");
        pen.text(toX(chart, v), chart.height - 8, textOf(v), "quiet", "center");
    }
    pen.line(LEFT, chart.height - BOTTOM, chart.width - RIGHT, chart.height - BOTTOM, "line");
    pen.text(chart.width - RIGHT + 4, chart.height - BOTTOM + 4, name, "quiet");
}

function drawAxisY(chart, pen, name) {
    pen.text(LEFT - 6, TOP - 5, name, "quiet", "right");
    const step = niceStep((chart.span.y1 - chart.span.y0) / Math.max(2, (chart.height - TOP) / 40), true);
    for (let v = Math.ceil(chart.span.y0 / step) * step; v <= chart.span.y1; v += step) {
        pen.line(LEFT, toY(chart, v), chart.width - RIGHT, toY(chart, v), "line");
        pen.text(LEFT - 6, toY(chart, v) + 4, bytesText(v), "quiet", "right");
    }
}

/* Draws with any pen of a size. */
function drawChart(chart, pen) {
    chart.width = pen.width;
    chart.height = pen.height;
    if (chart.shown !== g) showAll(chart);
    if (pen.width > LEFT + RIGHT && pen.height > TOP + BOTTOM) chart.draw(pen);
}

function zoomChart(chart, x, y, by) {
    zoomAxis(chart, "x0", "x1", x, by);
    if (chart.zoomsY) zoomAxis(chart, "y0", "y1", y, by);
    change("chart");
}

function moveChart(chart, dx, dy) {
    moveAxis(chart, "x0", "x1", dx);
    if (chart.zoomsY) moveAxis(chart, "y0", "y1", dy);
    change("chart");
}

function keyOnChart(chart, e) {
    const {x0,
           x1,
           y0,
           y1} = chart.span,
           parts = {ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1]};
    if (parts[e.key]) moveChart(chart, parts[e.key][0] * (x1 - x0), parts[e.key][1] * (y1 - y0));
    else if (e.key === "+" || e.key === "=") zoomChart(chart, (x0 + x1) / 2, (y0 + y1) / 2, 0.8);
    else if (e.key === "-") zoomChart(chart, (x0 + x1) / 2, (y0 + y1) / 2, 1.25);
    else if (e.key === "0") {
        showAll(chart);
        change("chart");
    } else return;
    e.preventDefault();
    e.stopPropagation();
}

/* What lies under the pointer: lines. */
function hoverText({kind, id}) {
    const i = kind === "value" ? g.values.node[id] : id,
          lines = [nodeName(g, i), scopeName(g, g.nodes.scope[i])];
    if (kind === "value")
        lines.push(texts[g.values.type[id]] + ", " + bytesText(g.values.bytes[id]),
                   "steps " + g.values.from[id] + " to " + g.values.until[id]);
    else
        lines.push([texts[g.nodes.kernel[i]], "step " + g.nodes.step[i], timeOfNode(i)]
                       .filter(text => text)
                       .join(", "));
    return lines.join("\n");
}

/* Beside the pointer, within the window. */
function showHover(text, x, y) {
    const box = byId("hover");
    box.hidden = !text;
    if (!text) return;
    box.textContent = text;
    box.style.left = Math.max(0, Math.min(x + 14, innerWidth - box.offsetWidth - 4)) + "px";
    box.style.top =
        Math.max(0, y + 16 + box.offsetHeight > innerHeight ? y - 8 - box.offsetHeight : y + 16) + "px";
}

function listenChart(chart) {
    const canvas = chart.canvas;
    let from = null, moved = false;
    canvas.addEventListener("wheel", e => {
        e.preventDefault();
        zoomChart(chart, fromX(chart, e.offsetX), fromY(chart, e.offsetY), Math.pow(1.0015, e.deltaY));
    }, {passive: false});
    canvas.addEventListener("pointerdown", e => {
        from = {x: e.offsetX, y: e.offsetY};
        moved = false;
    });
    canvas.addEventListener("pointermove", e => {
        if (!from || !e.buttons || (!moved && Math.hypot(e.offsetX - from.x, e.offsetY - from.y) < 4)) return;
        moved = true;
        moveChart(chart, fromX(chart, from.x) - fromX(chart, e.offsetX),
                  fromY(chart, from.y) - fromY(chart, e.offsetY));
        from = {x: e.offsetX, y: e.offsetY};
    });
    canvas.addEventListener("pointerup", () => from = null);
    canvas.addEventListener("click", e => {
        const x = fromX(chart, e.offsetX), y = fromY(chart, e.offsetY);
        if (!moved) chart.pick(x, y, chart.find(x, y));
    });
    canvas.addEventListener("mousemove", e => {
        const found = e.buttons ? null : chart.find(fromX(chart, e.offsetX), fromY(chart, e.offsetY));
        showHover(found ? hoverText(found) : "", e.clientX, e.clientY);
    });
    canvas.addEventListener("mouseleave", () => showHover(""));
    canvas.addEventListener("keydown", e => keyOnChart(chart, e));
    new ResizeObserver(() => change("chart")).observe(canvas);
}
