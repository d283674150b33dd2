/* camera.js - which part of the picture the window shows: screen = picture * k + (x, y). Drag or wheel, keys
 * in keys.js. */
const camera = {
    x: 0,
    y: 0,
    k: 0
};
const SMALLEST = 0.0001, LARGEST = 4, READABLE = 0.7, READABLE_WHOLE = 0.6;

function zoomAt(px, py, by) {
    const k = Math.min(LARGEST, Math.max(SMALLEST, camera.k * by));
    camera.x = px - (px - camera.x) * k / camera.k;
    camera.y = py - (py - camera.y) * k / camera.k;
    camera.k = k;
    change("camera");
}

function zoomBy(by) {
    const svg = byId("picture");
    zoomAt(svg.clientWidth / 2, svg.clientHeight / 2, by);
}

function panBy(dx, dy) {
    camera.x += dx;
    camera.y += dy;
    change("camera");
}

/* The whole picture, but no larger than it is. */
function fit() {
    const svg = byId("picture"), pad = 12;
    camera.k = Math.max(SMALLEST, Math.min(1, (svg.clientWidth - 2 * pad) / layout.width,
                                           (svg.clientHeight - 2 * pad) / layout.height));
    camera.x = (svg.clientWidth - layout.width * camera.k) / 2;
    camera.y = Math.max(pad, (svg.clientHeight - layout.height * camera.k) / 2);
    change("camera");
}

/* What is seen first: all of it where it can be read, else its beginning: forward and backward, as far as
 * they fit. */
function showStart() {
    fit();
    if (camera.k >= READABLE_WHOLE) return;
    const width = byId("picture").clientWidth - 24, update = scopeBox(0, UPDATE);
    const most = layout.x[update] > 0 ? layout.x[update] - PHASE_GAP : layout.width;
    camera.k = Math.max(camera.k, Math.min(1, Math.max(READABLE, width / most)));
    camera.x = layout.width * camera.k < width ? (width + 24 - layout.width * camera.k) / 2 : 12;
    camera.y = 12;
}

/* Brings a box into the window if it is not there. */
function showBox(b) {
    const svg = byId("picture"), {x, y, w, h} = layout, k = camera.k;
    const left = x[b] * k + camera.x, top = y[b] * k + camera.y;
    if (left >= 0 && top >= 0 && left + w[b] * k <= svg.clientWidth && top + h[b] * k <= svg.clientHeight)
        return;
    camera.k = Math.max(k, READABLE);
    camera.x = svg.clientWidth / 2 - (x[b] + w[b] / 2) * camera.k;
    camera.y =
        svg.clientHeight / 2 - (y[b] + Math.min(h[b] / 2, svg.clientHeight / 2 / camera.k - 10)) * camera.k;
    change("camera");
}

function focusBox(b) {
    picture.current = b;
    if (b < 0) return;
    showBox(b);
    drawWindow();
    const box = picture.shown.get(b) || picture.frames.get(b);
    if (box) box.focus({preventScroll: true});
}

/* A drag of more than 4 pixels moves the picture, and is no click. */
function listenCamera() {
    const svg = byId("picture");
    let from = null, moved = false;
    svg.addEventListener("pointerdown", e => {
        from = {x: e.clientX, y: e.clientY};
        moved = false;
    });
    svg.addEventListener("pointermove", e => {
        if (!from || !e.buttons) return;
        if (!moved && Math.hypot(e.clientX - from.x, e.clientY - from.y) < 4) return;
        if (!moved) svg.setPointerCapture(e.pointerId);
        document.body.classList.add("dragging");
        moved = true;
        panBy(e.clientX - from.x, e.clientY - from.y);
        from = {x: e.clientX, y: e.clientY};
    });
    for (const end of ["pointerup", "pointercancel"])
        svg.addEventListener(end, () => {
            from = null;
            document.body.classList.remove("dragging");
        });
    svg.addEventListener("click", e => {
        if (moved) e.stopImmediatePropagation();
        moved = false;
    }, true);
    svg.addEventListener("wheel", e => {
        e.preventDefault();
        const at = svg.getBoundingClientRect();
        if (e.shiftKey) panBy(-e.deltaY, 0);
        else zoomAt(e.clientX - at.left, e.clientY - at.top, Math.pow(1.0015, -e.deltaY));
    }, {passive: false});
    new ResizeObserver(() => {
        if (state.tab === "graph") change("camera");
    }).observe(svg);
}
