/**
 * The pane of sync: is it safe elsewhere? One sentence, one primary button.
 *
 * @typedef {{ [name: string]: any }} Message
 * @typedef {import("./panel.js").Frame} Frame
 */

/** How often to push by time. The words are those of the kernel. */
const PERIODS = [
  { value: "minute", text: "every minute", seconds: 60 },
  { value: "five", text: "every 5 minutes", seconds: 300 },
  { value: "half", text: "every 30 minutes", seconds: 1800 },
  { value: "never", text: "only when I press Sync now", seconds: 0 },
];

/** @param {string} written @returns {number} seconds since 1970, or 0 */
const seconds = (written) => (Date.parse(written) || 0) / 1000;

/** @param {number} period @returns {string} the choice that is nearest */
export const choice = (period) => PERIODS.filter(({ seconds }) => !seconds === !period).reduce((best, each) => (Math.abs(each.seconds - period) < Math.abs(best.seconds - period) ? each : best)).value;

/** When a push begins by itself. @param {Message} state */
export function times({ period, after_saves: saves }) {
  const often = PERIODS.find(({ value }) => value === choice(period))?.text ?? "";
  return !saves ? often : period ? `${often}, and after each save` : "after each save";
}

/** What stands on the tab: a sign, and how much waits in each direction. @param {Message} state */
export function tab(state) {
  const waiting = (state.waiting?.[0] ?? 0) + (state.waiting?.[1] ?? 0);
  const both = [waiting ? `↑ ${waiting}` : "", state.there ? `↓ ${state.there}` : ""].filter(Boolean).join(" ");
  return { off: "", sending: "↑", waiting: both || "●", failed: "✕", there: both, synced: "✓" }[/** @type {"off"} */ (state.state)] ?? "";
}

/**
 * The sentence, in parts: a time stands between them.
 * @param {Message} state @param {typeof import("./format.js")} format @param {number} now
 * @param {string} [gone] when the kernel answered last, if it has gone @returns {{ icon: string, before: string, at: number, after: string }}
 */
export function sentence(state, format, now, gone = "") {
  const said = (/** @type {string} */ icon, /** @type {string} */ before, at = 0, after = "") => ({ icon, before, at, after });
  if (gone && state.state === "synced") return said("waiting", `Last seen ${gone}: all in ${state.url}. Run this cell again.`);
  if (state.state === "off") return said("warn", "Your checkpoints are on this machine only.");
  if (state.state === "sending") {
    const [done, size, left] = state.progress ?? [0, 0, null];
    const part = size ? `: ${format.size(done)} of ${format.size(size)}` : "…";
    return said("running", `Sending to ${state.url}${part}${left ? `, ${format.left(left)}` : ""}`);
  }
  if (state.state === "failed") {
    const cause = state.failure.replace(/\.$/, "");
    return state.pushed_at ? said("failed", `Not safe since ${since(seconds(state.failed_at || state.pushed_at), now, format)}. ${cause}.`) : said("failed", `Not safe elsewhere. ${cause}.`);
  }
  if (state.state === "waiting") return said("waiting", waiting(state, format));
  if (state.state === "there") return said("warn", `${onlyThere(state, format)}. All of here is in ${state.url}.`);
  return said("done", `Everything is also in ${state.url}. Checked `, seconds(state.pushed_at), ".");
}

/** The hour of today, or the day too. @param {number} at @param {number} now @param {typeof import("./format.js")} format */
const since = (at, now, format) => (now - at < 86400 ? format.hour(at) : format.age(at, now));

/** @param {Message} state @param {typeof import("./format.js")} format */
const onlyThere = ({ there }, format) => `${format.count(there, "checkpoint")} there ${there === 1 ? "is" : "are"} not here`;

/** @param {Message} state @param {typeof import("./format.js")} format */
function waiting({ waiting: [checkpoints = 0, trials = 0] = [], waiting_size: size, url, pushed_at: pushed }, format) {
  const what = [checkpoints ? format.count(checkpoints, "checkpoint") : "", trials ? `${checkpoints ? "c" : "C"}hanges of ${format.count(trials, "trial")}` : ""].filter(Boolean);
  if (what.length) return `${what.join(" and ")} ${checkpoints === 1 && !trials ? "is" : "are"} not there yet${size ? `, ${format.size(size)}` : ""}.`;
  return pushed ? `Not checked yet in this kernel: ${url}.` : `Nothing was sent to ${url} yet.`;
}

/** When the next push comes, in seconds since 1970; null if that is not known. @param {Message} state */
export function next({ state, background, pushed_at: pushed, period }) {
  const at = seconds(pushed);
  return background && at && ["synced", "there", "waiting"].includes(state) && period ? at + period : null;
}

/** @param {Frame} frame @returns {import("./panel.js").Pane} */
export function pane(frame) {
  const { dom, format } = frame;
  /** @type {Message} */
  let state = { state: "", here: [0, 0] };
  let isChanging = false;
  let asked = 0;
  let drawn = "";
  const card = dom.make("div", { class: "nb-sync-card" });
  const place = dom.make("input", { class: "nb-input", "aria-label": "Place", placeholder: "s3://bucket/folder, or a folder", size: 34 });
  let often = "five";
  const saves = dom.make("input", { type: "checkbox", checked: true, "data-action": "after-saves" });
  saves.addEventListener("change", changed);
  const period = dom.select("How often", PERIODS, often, (value) => {
    often = value;
    changed();
  });
  const more = dom.make("div", { class: "nb-sync-more", hidden: true });
  const element = dom.make("div", { class: "nb-sync" }, card, more);
  place.addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), void set()));

  /** When to push was chosen anew: a sync that is on takes it at once. */
  function changed() {
    if (state.state && state.state !== "off") void set();
  }

  async function set() {
    const wish = { url: place.value.trim(), period: often, after_saves: saves.checked };
    asked += 1;
    const answer = await frame.act("sync_set", [], wish);
    asked -= 1;
    if (answer?.ok) {
      isChanging = false;
      state = { ...state, ...wish, period: PERIODS.find(({ value }) => value === wish.period)?.seconds }; // the kernel tells it later
    }
    draw(true);
  }

  /** @param {string} label @param {string} verb @param {import("./dom.js").IconName} [icon] @param {boolean} [primary] */
  const button = (label, verb, icon, primary = false) =>
    dom.button({ label, icon, primary, why: frame.why(), id: verb, run: () => void (verb === "sync" || verb === "sync_cancel" ? frame.act(verb, []) : frame.deed(verb, [])) });

  /** @param {boolean} quiet */
  const change = (quiet) => dom.button({ label: "Change place", quiet, run: () => ((isChanging = true), draw(true), place.focus()), id: "change" });

  function buttons() {
    switch (state.state) {
      case "sending":
        return [button("Cancel", "sync_cancel")];
      case "failed":
        return [button("Try again", "sync", "retry", true), isChanging ? null : change(false)];
      case "there":
        return [button(`Bring ${state.there} here`, "pull", "restore", true)];
      case "waiting":
      case "synced":
        return [button("Sync now", "sync", "sync", true)];
      default:
        return [];
    }
  }

  function held() {
    const [checkpoints, experiments] = state.here;
    return [format.count(checkpoints, "checkpoint"), experiments ? format.count(experiments, "experiment") : ""].filter(Boolean).join(" and ");
  }

  function facts() {
    const at = next(state);
    const push = state.state === "waiting" ? " · next try " : " · next ";
    return [`${held()} here`, at !== null && !frame.gone() ? push : "", at !== null && !frame.gone() ? frame.until(at) : null, ` · ${times(state)}`, state.there && state.state !== "there" ? ` · ${onlyThere(state, format)}` : ""];
  }

  /** Show what the kernel keeps. While it is asked for something else, the newer wish stands. @param {boolean} editing */
  function choices(editing) {
    if (!editing && !isChanging) place.value = state.url ?? place.value;
    if (state.state === "off") return;
    period.value = often = choice(state.period);
    saves.checked = state.after_saves;
  }

  /** @param {boolean} [anyway] */
  function draw(anyway = false) {
    const now = JSON.stringify([state, isChanging, frame.why()]);
    if (!state.state || (now === drawn && !anyway)) return;
    const editing = document.activeElement === place;
    drawn = now;
    const { icon, before, at, after } = sentence(state, format, Date.now() / 1000, frame.gone());
    const isOff = state.state === "off";
    if (!asked) choices(editing);
    period.disabled = saves.disabled = Boolean(frame.why());
    const when = [dom.make("label", {}, "How often ", period), dom.make("label", {}, saves, "also after each save")];
    const [done, size] = state.progress ?? [0, 0];
    dom.fill(
      card,
      dom.make("div", { class: `nb-sync-line nb-sync-${frame.gone() ? "gone" : state.state}` }, dom.icon(/** @type {any} */ (icon)), dom.make("span", { class: "nb-sync-words", role: "status" }, before, at ? frame.age(at) : "", after), ...buttons()),
      size ? dom.progress(done / size, "sent") : null,
      dom.make("p", { class: "nb-dim" }, ...(isOff ? [`${held()} would be sent, and after that what is new.`] : facts())),
      isOff || isChanging
        ? dom.make("div", { class: "nb-sync-form" }, dom.make("label", {}, "Place ", place), ...when,
            dom.button({ label: isOff ? "Turn on" : "Use this place", primary: isOff, run: () => void set(), why: frame.why(), id: "set" }),
            isOff ? null : dom.button({ label: "Cancel", run: () => ((isChanging = false), draw(true)) }))
        : dom.make("div", { class: "nb-sync-form" }, dom.make("span", {}, "Place ", dom.make("code", { class: "nb-wrap", text: state.url })),
            state.state === "failed" ? null : change(true), ...when),
    );
    if (editing) place.focus();
    frame.changed();
  }

  async function settings() {
    const answer = await frame.ask("settings", []);
    if (!answer?.html) return;
    dom.page(more, answer.html);
    more.hidden = false;
  }

  return {
    id: "sync",
    title: "Sync",
    element,
    count: () => (state.state && !frame.gone() ? tab(state) : ""),
    follow: () => ({}),
    message(message) {
      if (message.kind !== "sync") return;
      state = message;
      draw();
    },
    actions: () => (!state.state || state.state === "off" ? [] : [
      { label: "Bring here what is there…", icon: "restore", run: () => void frame.deed("pull", []), kernel: true, id: "bring" },
      { gap: true },
      { label: "Turn off…", icon: "stopped", run: () => void frame.deed("sync_off", [], {}, { danger: true }), kernel: true, id: "sync_off" },
    ]),
    key: (name) => name === "escape" && isChanging && ((isChanging = false), draw(true), true),
    menu: () => [{ label: "All settings", icon: "columns", why: frame.why() || undefined, run: () => void settings() }],
    standing: () => draw(),
    shown: () => draw(true),
    resized: () => {},
  };
}
