/* pen.js - rectangles, lines and text, drawn on a canvas or written as an SVG: memory map and streams draw
 * with either. Colours are names of the variables of page.css. */
function colours() {
    const style = getComputedStyle(document.documentElement), known = {};
    return name => known[name] || (known[name] = style.getPropertyValue("--" + name).trim());
}

/* Rectangles of a pixel or less are drawn once at each place: a plan may have a hundred thousand of them. */
function canvasPen(canvas) {
    const dots = new Set();
    const scale = window.devicePixelRatio || 1, colour = colours();
    const width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const at = canvas.getContext("2d");
    at.scale(scale, scale);
    at.font = "11px 'Liberation Sans', Arial, sans-serif";
    return {
        width,
        height,
        rect(x, y, w, h, fill, stroke, thick) {
            if (w <= 1.5 && !stroke) {
                const dot = (Math.floor(x) * 10000 + Math.floor(y)) * 10000 + Math.floor(h);
                if (dots.has(dot)) return;
                dots.add(dot);
            }
            at.fillStyle = colour(fill);
            at.fillRect(x, y, w, h);
            if (!stroke) return;
            at.strokeStyle = colour(stroke);
            at.lineWidth = thick || 1;
            at.strokeRect(x + 0.5, y + 0.5, Math.max(0, w - 1), Math.max(0, h - 1));
        },
        line(x1, y1, x2, y2, stroke, dash) {
            at.strokeStyle = colour(stroke);
            at.lineWidth = dash ? 1.5 : 1;
            at.setLineDash(dash ? [4, 3] : []);
            at.beginPath();
            at.moveTo(x1, y1);
            at.lineTo(x2, y2);
            at.stroke();
            at.setLineDash([]);
        },
        text(x, y, text, fill, align) {
            at.fillStyle = colour(fill || "text");
            at.textAlign = align || "left";
            at.fillText(text, x, y);
        },
        clip(x, y, w, h) {
            at.save();
            at.beginPath();
            at.rect(x, y, w, h);
            at.clip();
        },
        unclip() {
            at.restore();
        },
    };
}

const ANCHORS = {
    right: "end",
    center: "middle",
    left: "start"
};

/* The same as an <svg>; its `made` is the element. */
function svgPen(width, height) {
    const colour = colours(),
          made = svgElement("svg", {width, height, viewBox: "0 0 " + width + " " + height});
    made.append(svgElement("rect", {width, height, fill: colour("ground")}));
    let into = made, clips = 0;
    const round = n => Math.round(n * 10) / 10;
    return {
        width,
        height,
        made,
        rect(x, y, w, h, fill, stroke, thick) {
            into.append(svgElement("rect", {
                x: round(x),
                y: round(y),
                width: round(w),
                height: round(h),
                fill: colour(fill),
                stroke: stroke ? colour(stroke) : "none",
                "stroke-width": thick || 1
            }));
        },
        line(x1, y1, x2, y2, stroke, dash) {
            into.append(svgElement("line", {
                x1: round(x1),
                y1: round(y1),
                x2: round(x2),
                y2: round(y2),
                stroke: colour(stroke),
                "stroke-dasharray": dash ? "4 3" : "none"
            }));
        },
        text(x, y, text, fill, align) {
            into.append(svgElement("text", {
                x: round(x),
                y: round(y),
                fill: colour(fill || "text"),
                "text-anchor": ANCHORS[align || "left"],
                "font-size": 11,
                "font-family": "Liberation Sans, Arial, sans-serif"
            },
                                   text));
        },
        clip(x, y, w, h) {
            const id = "clip" + clips++, clip = svgElement("clipPath", {id});
            clip.append(svgElement("rect", {x, y, width: w, height: h}));
            into = svgElement("g", {"clip-path": "url(#" + id + ")"});
            made.append(clip, into);
        },
        unclip() {
            into = made;
        },
    };
}
