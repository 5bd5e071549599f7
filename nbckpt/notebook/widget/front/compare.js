/**
 * Two to six trials side by side: the settings that differ, their metrics with the difference to the first, their curves, images by
 * step. What is the same in all is folded.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {{ name: string, values: import("./rows.js").Value[], differs: boolean }} Row
 */

const MOST = 6;
const CHART = { width: 420, height: 170 };

/**
 * The settings of trials, those that differ first. Pure.
 * @param {Trial[]} trials @param {string[]} important names in their order
 * @returns {{ differ: Row[], same: Row[] }}
 */
export function differences(trials, important) {
  const names = [...new Set([...important, ...trials.flatMap((trial) => Object.keys(trial.settings ?? {}))])];
  const rows = names.map((name) => {
    const values = trials.map((trial) => trial.settings?.[name]);
    return { name, values, differs: new Set(values.map(String)).size > 1 };
  });
  return { differ: rows.filter((row) => row.differs), same: rows.filter((row) => !row.differs && row.values[0] !== undefined) };
}

/**
 * How a number differs from the first one: `+0.04`, or "" for what has no difference. Pure.
 * @param {import("./rows.js").Value} value @param {import("./rows.js").Value} first @param {typeof import("./format.js")} format
 */
export function difference(value, first, format) {
  if (typeof value !== "number" || typeof first !== "number" || value === first) return "";
  return `${value > first ? "+" : "−"}${format.number(Math.abs(value - first), 3)}`;
}

/**
 * The picture.
 * @param {import("./panel.js").Frame} frame @param {import("./pictures.js").Beside} beside
 */
export function picture(frame, beside) {
  const { dom, format, parts } = frame;
  const values = dom.make("div", {});
  const summary = dom.make("summary", {});
  const folded = dom.make("p", { class: "nb-quiet-text" });
  const fold = dom.make("details", { class: "nb-fold", hidden: true }, summary, folded);
  const curves = dom.make("div", { class: "nb-compare-curves" });
  const table = dom.make("div", { class: "nb-page nb-compare", tabindex: 0, role: "group", "aria-label": "Comparison" }, values, fold, curves);
  const numbers = parts.numbers.numbers(frame, "Curves of these trials", draw);
  const images = dom.make("div", {});
  const element = dom.make("div", { class: "nb-picture" }, table, images);
  /** @type {string[]} */
  let pair = [];
  let asked = "";

  /** The selected ones; if there are fewer than two, those that were asked for. */
  function trials() {
    const chosen = beside.selected();
    const ids = (chosen.length > 1 ? chosen : pair).slice(0, MOST);
    return /** @type {Trial[]} */ (ids.map((id) => beside.known.rows.get(id)).filter(Boolean));
  }

  function draw() {
    const shown = trials();
    if (shown.length < 2) {
      asked = "";
      for (const each of [images, curves]) each.replaceChildren();
      fold.hidden = true;
      return dom.fill(values, dom.make("p", { class: "nb-quiet-text", text: "Select two to six trials to compare them." }));
    }
    const { differ, same } = differences(shown, beside.known.settings);
    const head = dom.make("tr", {}, dom.make("th", { scope: "col" }, dom.make("span", { class: "nb-unseen", text: "Name" })), ...shown.map(title));
    const body = [...differ.map((row) => line(row, settingText(row))), ...beside.known.metrics.map((name) => metric(name, shown)), line({ name: "time", values: [], differs: true }, shown.map((trial) => (trial.seconds == null ? "" : format.duration(trial.seconds))))];
    dom.fill(values, dom.make("table", {}, dom.make("thead", {}, head), dom.make("tbody", {}, ...body)));
    drawSame({ ...beside.known.same, ...Object.fromEntries(same.map((row) => [row.name, row.values[0]])) });
    drawCurves(shown);
    void drawImages(shown.map((trial) => trial.id));
  }

  /** What is the same in all, folded, with a count. @param {Record<string, unknown>} all */
  function drawSame(all) {
    const names = Object.keys(all);
    fold.hidden = !names.length;
    summary.textContent = `Same in all: ${format.count(names.length, "setting")}`;
    folded.textContent = names.map((name) => `${name} ${all[name]}`).join(", ");
  }

  let drawn = "";
  /** Their curves of the metric, as far as they are here already. @param {Trial[]} shown */
  function drawCurves(shown) {
    const { lines: known, metric: name, version } = beside.known;
    const slots = parts.series.assign(new Map(beside.slots), shown.map(({ id }) => id));
    const lines = shown.map(({ id, status }) => ({ id, slot: slots.get(id) ?? 0, failed: status === "failed", x: known.get(id)?.x ?? [], y: known.get(id)?.y ?? [] })).filter(({ x }) => x.length);
    const mark = JSON.stringify([name, version, numbers.isOn(), lines.map(({ id, slot }) => [id, slot])]);
    if (mark === drawn && curves.childElementCount) return;
    drawn = mark;
    if (numbers.isOn()) numbers.lines("Trial", [lines.map(({ id, x, y }) => ({ name: id, x, y }))], (x) => `step ${Math.round(x)}`);
    const picture = () => dom.make("figure", {}, dom.make("figcaption", { class: "nb-compare-names" }, `${name} by step`, ...lines.map(({ id, slot }) => dom.make("span", {}, parts.legend.swatch(frame, slot), id))), parts.small_chart.chart(frame, name, lines, CHART));
    dom.refill(curves, ...(lines.length ? [numbers.isOn() ? numbers.element : picture(), numbers.button()] : []));
  }

  /** @param {Trial} trial */
  function title(trial) {
    const slot = beside.slots.get(trial.id);
    const best = beside.best()?.id === trial.id;
    return dom.make("th", { scope: "col", style: slot === undefined ? null : `color: var(--nb-line-${slot + 1})` }, trial.id, best && " ", best && dom.icon("star", "best"));
  }

  /** @param {Row} row */
  const settingText = ({ values }) => values.map(format.setting);

  /** @param {Row} row @param {string[]} texts @param {string[]} [beneath] */
  const line = ({ name, values }, texts, beneath = []) =>
    dom.make("tr", {}, dom.make("th", { scope: "row", text: name }), ...texts.map((text, at) =>
      dom.make("td", { title: format.exact(values[at]) || null }, text, beneath[at] ? dom.make("span", { class: "nb-quiet-text", text: `  ${beneath[at]}` }) : null)));

  /** @param {string} name @param {Trial[]} shown */
  function metric(name, shown) {
    const values = shown.map((trial) => trial.metrics?.[name]);
    return line({ name, values, differs: true }, values.map(format.numbers(values)), values.map((value) => difference(value, values[0], format)));
  }

  /** Images are asked for once per choice of trials. @param {string[]} ids */
  async function drawImages(ids) {
    const key = ids.join(" ");
    if (asked === key || !frame.live()) return;
    asked = key;
    images.replaceChildren();
    const strip = parts.media.strip(frame, { ids, experiment: beside.known.name });
    const answer = await frame.ask("steps", ids, { experiment: beside.known.name });
    if (asked !== key || !answer?.data?.media) return;
    images.replaceChildren(...strip.elements);
    strip.take(answer.data.media);
  }

  return {
    element, draw,
    /** @param {string[]} ids */
    compare(ids) {
      pair = ids;
    },
  };
}
