/**
 * The detail of one trial: what can be done with it, its curves, its page and its media. It follows a trial that goes on.
 */

const AGAIN_MS = 2000;
const MOST_BUTTONS = 4;

/**
 * Make a detail. It shows nothing yet.
 * @param {import("./panel.js").Frame} frame @param {import("./pictures.js").Beside} beside
 */
export function detail(frame, beside) {
  const { dom, parts } = frame;
  const { known } = beside;
  const element = dom.make("div", { class: "nb-picture" });
  /** @type {ReturnType<typeof build> | null} */
  let content = null;
  /** @type {{ [name: string]: any }} */
  let data = {};
  let [id, experiment, sign, html] = ["", "", "", ""];
  let [turn, loading, began] = [0, 0, 0];
  let due = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);

  /** Its row, unless another experiment is in sight now. */
  const rowNow = () => (experiment === known.name ? known.rows.get(id) : undefined);

  /** What differs once the detail may differ. */
  function signOf() {
    const row = rowNow();
    return row ? JSON.stringify([row.status, row.step, row.saved, row.note, row.tags]) : sign;
  }

  /** @param {string} text */
  const said = (text) => element.replaceChildren(dom.make("p", { class: "nb-empty nb-quiet-text", text }));

  /** Show a trial. @param {string} next its name */
  function show(next) {
    stop();
    [id, experiment, html, data, content] = [next, known.name, "", {}, null];
    said(frame.live() ? "Loading…" : `Not loaded: ${frame.why()}`);
    void load();
  }

  function build() {
    const deeds = dom.make("div", { class: "nb-tools", role: "group", "aria-label": `Checkpoints of ${id}` });
    const page = dom.make("div", { class: "nb-page", tabindex: 0, role: "group", "aria-label": id });
    const [curves, media] = [parts.trial_curves.curves(frame, beside, id), parts.media.strip(frame, { ids: [id], experiment })];
    element.replaceChildren(deeds, curves.element, page, ...media.elements);
    return { deeds, page, curves, media };
  }

  async function load() {
    const mine = (turn += 1);
    [loading, began, sign] = [mine, Date.now(), signOf()];
    const answer = await frame.ask("trial", [id], { experiment });
    if (mine !== turn) return;
    loading = 0;
    if (!answer) return void (sign = "");
    if (answer.ok === false) return content ? undefined : said(String(answer.text));
    data = answer.data ?? {};
    if (content && rowNow()) void content.curves.load();
    content ??= build();
    renew(content.page, String(answer.html ?? ""));
    content.media.take(data.media ?? {});
    draw();
  }

  /** Have another page in sight. @param {HTMLElement} page @param {string} next */
  function renew(page, next) {
    if (next === html) return;
    html = next;
    dom.keeping(element, () => dom.page(page, html));
  }

  /** @param {number} step */
  const restore = (step) => ({ label: `Restore @${step}…`, icon: /** @type {const} */ ("restore"), id: `restore-${step}`, kernel: true, run: () => void frame.deed("restore", [id], { experiment, step }) });

  function drawDeeds() {
    const why = frame.why();
    const steps = [...new Set((data.checkpoints ?? []).map((/** @type {{ step: number }} */ each) => each.step))].reverse();
    const older = dom.button({ label: "Older checkpoints", icon: "down", id: "older", run: () => frame.menu(older, steps.slice(MOST_BUTTONS).map(restore)) });
    dom.refill(/** @type {NonNullable<typeof content>} */ (content).deeds,
      rowNow()?.status === "failed" && dom.button({ label: "Retry", icon: "retry", why, id: "retry-one", run: () => void frame.deed("retry", [id], { experiment }) }),
      data.error && dom.button({ label: "Copy error", icon: "copy", id: "copy-error", run: () => void navigator.clipboard?.writeText(data.error).then(() => frame.say("Copied the error.")) }),
      ...steps.slice(0, MOST_BUTTONS).map((step) => dom.button({ ...restore(step), why })),
      steps.length > MOST_BUTTONS && older);
  }

  /** Load the trial again if it has changed, every two seconds at most. */
  function draw() {
    if (content) drawDeeds();
    if (!id || due || loading || !frame.live() || signOf() === sign) return;
    due = setTimeout(() => {
      due = undefined;
      void load();
    }, Math.max(0, began + AGAIN_MS - Date.now()));
  }

  function stop() {
    clearTimeout(due);
    due = undefined;
    turn += 1;
    [id, loading] = ["", 0];
  }
  frame.signal.addEventListener("abort", stop);

  return { element, show, draw, stop };
}
