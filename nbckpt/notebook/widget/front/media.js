/**
 * Media of trials by step: images, texts, tables. The kernel draws the pages, this chooses which.
 *
 * @typedef {Record<string, number[]>} Steps the steps that there are, by the name of the media
 */

const WAIT_MS = 120;

/**
 * The steps of a medium in order, each once. Pure.
 * @param {Steps} media @param {string} name
 */
export const stepsOf = (media, name) => [...new Set((media[name] ?? []).filter(Number.isFinite))].sort((a, b) => a - b);

/**
 * A choice of name and step, and the pages of that step for all trials. Empty until it has media. A step that was chosen stays;
 * before that, it is the last one.
 * @param {import("./panel.js").Frame} frame @param {{ ids: string[], experiment: string }} of
 */
export function strip(frame, { ids, experiment }) {
  const { dom } = frame;
  const state = { name: "", step: /** @type {number | null} */ (null), asked: 0, loaded: "" };
  /** @type {Steps} */
  let media = {};
  const chooser = dom.make("span", {});
  const slider = dom.make("input", { type: "range", class: "nb-slider nb-steps", min: 0, step: 1, "aria-label": "Step" });
  const text = dom.make("span", {});
  const tools = dom.make("div", { class: "nb-tools", hidden: true }, dom.make("strong", { text: "Media" }), chooser, slider, text);
  const pages = dom.make("div", { class: "nb-media" });
  let due = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);
  slider.addEventListener("input", () => {
    state.step = stepsOf(media, state.name)[Number(slider.value)];
    drawTools();
    clearTimeout(due);
    due = setTimeout(() => void load(), WAIT_MS);
  });

  /** The step that is shown. */
  const step = () => state.step ?? stepsOf(media, state.name).at(-1);

  function drawTools() {
    const steps = stepsOf(media, state.name);
    const names = Object.keys(media).filter((name) => stepsOf(media, name).length);
    tools.hidden = !names.length;
    dom.refill(chooser, names.length > 1 ? dom.select("Media", names, state.name, choose) : state.name);
    text.textContent = `step ${step()}`;
    dom.dress(slider, { max: steps.length - 1, "aria-valuetext": text.textContent });
    slider.value = String(steps.indexOf(Number(step())));
  }

  /** @param {string} name */
  function choose(name) {
    Object.assign(state, { name, step: null });
    drawTools();
    void load();
  }

  async function load() {
    const now = JSON.stringify([state.name, step()]);
    if (now === state.loaded || step() === undefined) return;
    state.loaded = now;
    const mine = ++state.asked;
    const answer = await frame.ask("media", ids, { experiment, name: state.name, step: step() });
    if (mine !== state.asked || !answer) return;
    const shown = answer.data?.pages ?? { [ids[0]]: answer.html ?? "" };
    dom.fill(pages, ...Object.entries(shown).map(([id, html]) => {
      const page = dom.make("div", { class: "nb-page" });
      dom.page(page, String(html));
      return dom.make("figure", { class: "nb-medium" }, ids.length > 1 && dom.make("figcaption", { text: id }), page);
    }));
  }

  return {
    elements: [tools, pages],
    /** Take in which media there are now. @param {Steps} next */
    take(next) {
      media = next;
      if (!stepsOf(media, state.name).length) Object.assign(state, { name: Object.keys(media).find((name) => stepsOf(media, name).length) ?? "", step: null });
      drawTools();
      void load();
    },
  };
}
