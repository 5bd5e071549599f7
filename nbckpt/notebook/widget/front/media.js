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
 * A choice of name and step, and the pages of that step for all trials. Empty if they have no media.
 * @param {import("./panel.js").Frame} frame @param {{ ids: string[], media: Steps, experiment: string }} of
 * @returns {HTMLElement[]}
 */
export function strip(frame, { ids, media, experiment }) {
  const { dom } = frame;
  const names = Object.keys(media).filter((name) => stepsOf(media, name).length);
  if (!names.length) return [];
  const state = { name: names[0], at: stepsOf(media, names[0]).length - 1, asked: 0 };
  const tools = dom.make("div", { class: "nb-tools" });
  const pages = dom.make("div", { class: "nb-media" });
  let due = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);

  function drawTools() {
    const steps = stepsOf(media, state.name);
    const slider = dom.make("input", { type: "range", class: "nb-slider nb-steps", min: 0, max: steps.length - 1, step: 1, value: state.at, "aria-label": "Step", "aria-valuetext": `step ${steps[state.at]}` });
    const text = dom.make("span", { text: `step ${steps[state.at]}` });
    slider.addEventListener("input", () => {
      state.at = Number(slider.value);
      text.textContent = `step ${steps[state.at]}`;
      slider.setAttribute("aria-valuetext", text.textContent);
      clearTimeout(due);
      due = setTimeout(() => void load(), WAIT_MS);
    });
    dom.fill(tools, dom.make("strong", { text: "Media" }), names.length > 1 ? dom.select("Media", names, state.name, choose) : dom.make("span", { text: state.name }), slider, text);
  }

  /** @param {string} name */
  function choose(name) {
    Object.assign(state, { name, at: stepsOf(media, name).length - 1 });
    drawTools();
    void load();
  }

  async function load() {
    const mine = ++state.asked;
    const answer = await frame.ask("media", ids, { experiment, name: state.name, step: stepsOf(media, state.name)[state.at] });
    if (mine !== state.asked || !answer) return;
    const shown = answer.data?.pages ?? { [ids[0]]: answer.html ?? "" };
    dom.fill(pages, ...Object.entries(shown).map(([id, html]) => {
      const page = dom.make("div", { class: "nb-page" });
      dom.page(page, String(html));
      return dom.make("figure", { class: "nb-medium" }, ids.length > 1 && dom.make("figcaption", { text: id }), page);
    }));
  }

  drawTools();
  void load();
  return [tools, pages];
}
