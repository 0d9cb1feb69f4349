// Draws the page's charts when they come into view, again when the colour scheme or the width changes,
// and hands out pictures of them and the raw data as files. Needs nothing but plotly, which the page holds.
(() => {
  "use strict";
  // Pixels: a line of a legend, and what plotly adds to an entry's text (the line or box before it, and gaps).
  const LEGEND_LINE = 21, LEGEND_MARK = 46;
  const PICTURE_WIDTH = 900;
  const json = (id) => JSON.parse(document.getElementById(id).textContent);
  const palettes = json("palettes");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const scheme = () => palettes[dark.matches ? "dark" : "light"];
  const settings = {displayModeBar: false, scrollZoom: false, doubleClick: false, showTips: false};

  // A copy of a figure's part with the page's colours put in for "var(--name)".
  function painted(part, palette) {
    if (typeof part === "string") {
      const name = /^var\(--([a-z]+)\)$/.exec(part);
      return name && palette[name[1]] || part;
    }
    if (Array.isArray(part)) return part.map((each) => painted(each, palette));
    if (part === null || typeof part !== "object") return part;
    return Object.fromEntries(Object.entries(part).map(([key, each]) => [key, painted(each, palette)]));
  }

  // A figure of some width, as tall as its legend then needs.
  function fitted(spec, palette, width, titled) {
    const {data, layout} = painted({data: spec.data, layout: spec.layout}, palette);
    const {height, entries, entry} = layout.meta;
    const room = width - layout.margin.l - layout.margin.r;
    const columns = Math.max(1, Math.floor(room / (entry + LEGEND_MARK)));
    const lines = Math.ceil(entries / columns);
    const legend = lines ? lines * LEGEND_LINE + 6 : 0;
    const title = titled ? 66 : 0;
    layout.width = width;
    layout.height = height + legend + title;
    layout.margin.b += legend;
    layout.margin.t += title;
    layout.legend.entrywidth = Math.min(entry, room - LEGEND_MARK);
    if (titled) {
      layout.title = {text: `${spec.title}<br><span style="font-size: 13px">${spec.subtitle}</span>`, x: 0, xref: "container", xanchor: "left", y: 1, yref: "container",
                      yanchor: "top", pad: {l: 10, t: 26}, font: {size: 17}};
    }
    return {data, layout};
  }

  const specs = new Map();
  function spec(chart) {
    if (!specs.has(chart)) specs.set(chart, json(chart.dataset.figure));
    return specs.get(chart);
  }

  function draw(chart) {
    const width = Math.floor(chart.clientWidth);
    if (!width) return;  // inside something that is folded
    const {data, layout} = fitted(spec(chart), scheme(), width, false);
    Plotly.react(chart, data, layout, settings).then(() => {
      chart.dataset.drawn = `${width} ${dark.matches ? "dark" : "light"}`;
    });
  }

  const charts = [...document.querySelectorAll(".chart")];
  const drawn = new Set();
  function drawOnce(chart) {
    if (drawn.has(chart) || !chart.clientWidth) return;
    drawn.add(chart);
    draw(chart);
  }
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) drawOnce(entry.target);
  }, {rootMargin: "800px 0px"});
  const sized = new ResizeObserver((entries) => {
    for (const {target} of entries) {
      if (drawn.has(target) && target.dataset.drawn?.split(" ")[0] !== String(Math.floor(target.clientWidth))) draw(target);
    }
  });
  for (const chart of charts) {
    seen.observe(chart);
    sized.observe(chart);
  }
  dark.addEventListener("change", () => drawn.forEach(draw));
  addEventListener("beforeprint", () => charts.forEach(drawOnce));

  function save(name, parts, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(parts, {type}));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  // Pictures are for slides and issues: always light, of one width, with their title.
  async function picture(chart, format) {
    const {data, layout} = fitted(spec(chart), palettes.light, PICTURE_WIDTH, true);
    const address = await Plotly.toImage({data, layout}, {
      format, width: layout.width, height: layout.height, scale: format === "png" ? 2 : 1});
    const content = address.slice(address.indexOf(",") + 1);
    const name = `${spec(chart).name}.${format}`;
    if (format === "svg") save(name, [decodeURIComponent(content)], "image/svg+xml");
    else save(name, [Uint8Array.from(atob(content), (c) => c.charCodeAt(0))], "image/png");
  }

  for (const button of document.querySelectorAll("button[data-format]")) {
    button.addEventListener("click", () => picture(document.getElementById(button.dataset.chart), button.dataset.format));
  }
  document.getElementById("save-results").addEventListener("click", () =>
    save("results.json", [document.getElementById("results").textContent.trim(), "\n"], "application/json"));
})();
