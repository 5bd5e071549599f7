/**
 * The way to the kernel: questions, answers, and whether anybody answers.
 *
 * Handlers in the kernel may wait for the running cell. So a deed is sent only when the answer to a ping has come: one that
 * waits can be cancelled here, and never happens by surprise later.
 *
 * @typedef {"live" | "waiting" | "silent" | "gone" | "held"} Standing
 * @typedef {{ [name: string]: any }} Message
 * @typedef {{ get(name: string): any, set(name: string, value: unknown): void, save_changes(): void,
 *   on(event: string, heard: (...args: any[]) => void): void, off(event: string, heard: (...args: any[]) => void): void,
 *   send(message: Message): void }} Model
 */

const WAITING_MS = 1000;
const SILENT_MS = 10000;
const AGAIN_MS = 1000;

/**
 * Tell how the kernel stands.
 * @param {{ gone: boolean, asked: number | null, now: number, held?: boolean }} seen
 *   `asked`: since when an answer is due; `held`: a deed waits until the running cell has ended, since both use variables
 * @returns {Standing}
 */
export function standing({ gone, asked, now, held = false }) {
  if (gone) return "gone";
  if (asked !== null && now - asked >= SILENT_MS) return "silent";
  if (asked !== null && now - asked >= WAITING_MS) return "waiting";
  return held ? "held" : "live";
}

/**
 * Open the way to the kernel.
 * @param {{ model: Model, signal: AbortSignal, heard: (message: Message, buffers: DataView[]) => void, changed: () => void,
 *   sight: () => Message }} options `heard` gets every message that answers nothing; `changed` is called when the standing may have changed;
 *   `sight` returns which view this is and what is in sight there
 */
export function link({ model, signal, heard, changed, sight }) {
  /** @type {Map<number, (answer: Message | null) => void>} */
  const open = new Map();
  /** @type {Set<(pong: Message | null) => void>} */
  const pings = new Set();
  /** @type {Set<{ dropped: boolean, held: boolean, drop: () => void }>} */
  const wishes = new Set();
  // All views hear all answers, so each begins with a number of its own.
  const state = { n: Math.floor(Math.random() * 2 ** 40), asked: /** @type {number | null} */ (null), since: Date.now(), gone: false };

  /** @type {ReturnType<typeof setTimeout>[]} */
  let timers = [];
  const calm = () => {
    timers.forEach(clearTimeout);
    timers = [];
  };
  const answered = () => {
    calm();
    state.asked = null;
    state.since = Date.now();
    changed();
  };
  const due = () => {
    if (state.asked !== null) return;
    state.asked = Date.now();
    timers = [WAITING_MS, SILENT_MS].map((wait) => setTimeout(changed, wait + 20));
  };
  const ping = () => {
    if (state.gone) return;
    due();
    send({ kind: "ping", n: ++state.n, ...sight() });
  };
  /** @param {Message} message */
  const settle = (message) => {
    open.get(message.n)?.(message);
    open.delete(message.n);
    answered();
  };
  /** @param {Message} message */
  const ponged = (message) => {
    const waiting = [...pings];
    pings.clear();
    answered();
    for (const done of waiting) done(message);
  };
  /** @param {Message} message @param {DataView[]} buffers */
  const receive = (message, buffers) => {
    if (!message || typeof message.kind !== "string") return;
    if (message.kind === "pong") ponged(message);
    else if (message.kind === "answer" || message.kind === "detail") settle(message);
    else heard(message, buffers ?? []);
  };
  const ended = () => {
    state.gone = true;
    calm();
    for (const done of [...pings, ...open.values()]) done(null);
    pings.clear();
    open.clear();
    changed();
  };
  /** Send; where a kernel was shut down, that is all that tells of it. @param {Message} message */
  const send = (message) => {
    try {
      model.send(message);
    } catch {
      if (!signal.aborted) ended();
    }
  };
  model.on("msg:custom", receive);
  model.on("comm_live_update", ended);
  signal.addEventListener("abort", () => {
    model.off("msg:custom", receive);
    model.off("comm_live_update", ended);
    calm();
    for (const done of [...pings, ...open.values()]) done(null);
  });

  /** @param {Message} message @returns {Promise<Message | null>} */
  const question = (message) =>
    new Promise((done) => {
      if (state.gone) return done(null);
      const n = ++state.n;
      open.set(n, done);
      due();
      send({ ...message, n });
    });
  /** @param {{ drop: () => void }} wish @returns {Promise<Message | null>} */
  const pong = (wish) =>
    new Promise((done) => {
      wish.drop = () => done(null);
      pings.add(done);
      ping();
    });

  return {
    /** Ask whether the kernel answers. */
    ping,
    /** @returns {Standing} */
    standing: () => standing({ ...state, now: Date.now(), held: [...wishes].some((wish) => wish.held) }),
    /** When the kernel answered last, in seconds since 1970. */
    since: () => state.since / 1000,
    /** Whether a deed waits here, and can be cancelled. */
    waits: () => wishes.size > 0,
    /** Drop the deeds that wait here. The kernel never hears of them. */
    cancel() {
      for (const wish of wishes) {
        wish.dropped = true;
        wish.drop();
      }
      wishes.clear();
      changed();
    },
    /** @param {Message} message that needs no answer */
    tell: (message) => state.gone || send(message),
    /**
     * Ask for a page. @param {string} of @param {string[]} ids @param {Message} [options] @returns {Promise<Message | null>}
     */
    detail: (of, ids, options = {}) => question({ kind: "detail", of, ids, options }),
    /**
     * Ask first, then act. Return the answer, or null if it was cancelled or the kernel has gone.
     * @param {string} verb @param {string[]} ids @param {Message} [options] @param {string} [pane]
     * @returns {Promise<Message | null>}
     */
    async act(verb, ids, options = {}, pane = undefined) {
      const wish = { dropped: false, held: false, drop: () => {} };
      wishes.add(wish);
      try {
        while (!wish.dropped && !state.gone && !signal.aborted) {
          const ready = await pong(wish);
          if (!ready || wish.dropped) return null;
          if (wish.held && ready.busy) {
            await new Promise((done) => setTimeout(done, AGAIN_MS));
            continue;
          }
          const answer = await question({ kind: "act", verb, ids, options, pane });
          if (!answer?.busy) return answer;
          wish.held = true;
          changed();
        }
        return null;
      } finally {
        wishes.delete(wish);
        changed();
      }
    },
  };
}
