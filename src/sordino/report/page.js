// Draws the charts in the colours of the theme, and lets the reader switch it.
(() => {
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const small = matchMedia("(max-width: 760px)");
  const remembered = { get: () => { try { return localStorage.getItem("theme"); } catch { return null; } },
                       set: (v) => { try { localStorage.setItem("theme", v); } catch { /* opened from disk */ } } };

  const css = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const soft = (hex, alpha) => `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},${alpha})`;

  // "@3" is the theme's fourth colour, "@3/0.2" the same but lighter, "@ink" a named one.
  const colour = (token) => {
    if (token === "@heat") return [[0, css("heat0")], [1, css("heat1")]];
    const [name, alpha] = token.slice(1).split("/");
    const hex = css(/^\d+$/.test(name) ? "c" + name : name);
    return alpha ? soft(hex, alpha) : hex;
  };
  const themed = (node) =>
    typeof node === "string" ? (/^@[\w]+(\/[\d.]+)?$/.test(node) ? colour(node) : node)
    : Array.isArray(node) ? (typeof node[0] === "number" ? node : node.map(themed))
    : node && typeof node === "object" ? Object.fromEntries(Object.entries(node).map(([k, v]) => [k, themed(v)]))
    : node;

  // Names stand under the plot where they are many or the screen is small, and the plot grows by them.
  const names = (f) => f.layout.showlegend ? f.data.filter((t) => t.showlegend !== false).map((t) => t.name) : [];
  const below = (f) => names(f).length > (small.matches ? 0 : 6);
  const rows = (f, width) => {
    const longest = 70 + 7 * Math.max(...names(f).map((name) => name.length));
    return Math.ceil(names(f).length / Math.max(1, Math.floor(width / longest)));
  };

  // Names of bars stand upright where they would overlap, and take their length from the plot's height.
  const upright = (f, width) => {
    const places = f.layout.xaxis.type === "category" ? [...new Set(f.data.flatMap((t) => t.x || []))] : [];
    const longest = Math.max(0, ...places.map((place) => String(place).length));
    return places.length * 7 * longest > width - 40 ? 6 * longest : 0;
  };

  const layout = (given, under) => {
    const axis = (a) => ({ automargin: true, gridcolor: css("grid"), linecolor: css("line"), zeroline: false,
      tickfont: { size: 12 }, ...a, title: { ...a.title, font: { size: 13 }, standoff: 8 } });
    return { ...given, xaxis: axis(given.xaxis), yaxis: axis(given.yaxis),
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest",
      font: { family: getComputedStyle(document.body).fontFamily, color: css("muted"), size: 13 },
      hoverlabel: { bgcolor: css("card"), bordercolor: css("line"), font: { color: css("ink") } },
      legend: { orientation: "h", x: 0, font: { size: small.matches ? 11 : 12.5 },
        ...(under ? { y: 0, yref: "container", yanchor: "bottom", maxheight: 0.9 } : { y: 1.02, yanchor: "bottom" }) },
      margin: { l: 8, r: 12, t: given.showlegend && !under ? 30 : 12, b: 8 }, bargap: 0.12 };
  };

  const draw = () => Promise.all(figures.map((f) => {
    const canvas = document.getElementById("plot-" + f.key);
    canvas.style.height = "";
    const more = (below(f) ? 29 * rows(f, canvas.clientWidth) : 0) + upright(f, canvas.clientWidth);
    if (more) canvas.style.height = `${canvas.clientHeight + more}px`;
    return Plotly.react(canvas, themed(f.data), layout(themed(f.layout), below(f)), {
      responsive: true, scrollZoom: false, displayModeBar: false });
  }));

  for (const save of document.querySelectorAll("button.save")) {
    const key = save.dataset.plot;
    save.addEventListener("click", () => Plotly.downloadImage("plot-" + key, { format: "svg", filename: key, width: 900, height: 520 }));
  }

  const button = document.querySelector("button.theme");
  const show = (theme) => {
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    const now = theme || (dark.matches ? "dark" : "light");
    button.textContent = now === "dark" ? "☀ light" : "☾ dark";
    button.setAttribute("aria-label", `switch to ${now === "dark" ? "light" : "dark"} colours`);
    return draw().then(() => { root.dataset.drawn = now; });
  };
  button.addEventListener("click", () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    remembered.set(next); show(next);
  });
  dark.addEventListener("change", () => show(root.dataset.theme));
  small.addEventListener("change", () => show(root.dataset.theme));
  show(remembered.get());
})();
