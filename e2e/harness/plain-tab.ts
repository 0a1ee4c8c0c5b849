import { readFile } from 'node:fs/promises';
import type { Browser, CDPSession } from 'playwright-core';
import { until } from './until.ts';

const pollMs = 100;

interface Answer {
  readonly id?: number;
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

/**
 * A tab as a user has it, without the network inspector. Playwright enables the inspector for its tabs, and the renderer then keeps the bodies of up to 100 MB of
 * responses, which are no memory of the page.
 */
export class PlainTab {
  readonly #browser: CDPSession;
  readonly #session: string;
  readonly #context: string;
  readonly #calls = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  #lastId = 0;

  private constructor(browser: CDPSession, { session, context }: { readonly session: string; readonly context: string }) {
    this.#browser = browser;
    this.#session = session;
    this.#context = context;
    browser.on('Target.receivedMessageFromTarget', ({ sessionId, message }) => {
      if (sessionId === session) this.#settle(JSON.parse(message) as Answer);
    });
  }

  /** Opens a tab of a context of its own, which has no cookies. */
  static async open(browser: Browser): Promise<PlainTab> {
    const session = await browser.newBrowserCDPSession();
    const { browserContextId } = await session.send('Target.createBrowserContext');
    const { targetId } = await session.send('Target.createTarget', { url: 'about:blank', browserContextId, width: 1280, height: 800 });
    const { sessionId } = await session.send('Target.attachToTarget', { targetId, flatten: false });
    const tab = new PlainTab(session, { session: sessionId, context: browserContextId });
    await tab.#send('Security.setIgnoreCertificateErrors', { ignore: true });
    await tab.#send('Emulation.setFocusEmulationEnabled', { enabled: true });
    return tab;
  }

  goTo(url: string): Promise<unknown> {
    return this.#send('Page.navigate', { url });
  }

  async evaluate(expression: string): Promise<unknown> {
    const { result } = (await this.#send('Runtime.evaluate', { expression })) as { readonly result: { readonly value?: unknown } };
    return result.value;
  }

  /** Waits until the page shows the text. */
  async waitForText(text: string): Promise<void> {
    const shows = `document.body?.innerText.includes(${JSON.stringify(text)})`;
    await until(`the tab shows ${text}`, async () => (await this.evaluate(shows)) === true, { everyMs: pollMs });
  }

  /** Returns the memory of the tab's process, without files that are mapped, such as the program itself; in MiB. */
  async processMiB({ collect }: { readonly collect: boolean }): Promise<number> {
    if (collect) await this.#send('HeapProfiler.collectGarbage');
    const { processInfo } = await this.#browser.send('SystemInfo.getProcessInfo');
    // each context has processes of its own, and the others show nothing
    const sizes = await Promise.all(processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => privateMiB(id)));
    return Math.max(...sizes);
  }

  /** Returns the memory of the objects that scripts of the page still use, in MiB. */
  async usedMiB(): Promise<number> {
    await this.#send('HeapProfiler.collectGarbage');
    const { usedSize } = (await this.#send('Runtime.getHeapUsage')) as { readonly usedSize: number };
    return usedSize / 2 ** 20;
  }

  async close(): Promise<void> {
    await this.#browser.send('Target.disposeBrowserContext', { browserContextId: this.#context });
    await this.#browser.detach();
  }

  #send(method: string, params: object = {}): Promise<unknown> {
    this.#lastId += 1;
    const id = this.#lastId;
    const answer = new Promise((resolve, reject) => this.#calls.set(id, { resolve, reject }));
    return Promise.all([
      answer,
      this.#browser.send('Target.sendMessageToTarget', { sessionId: this.#session, message: JSON.stringify({ id, method, params }) }),
    ]).then(([result]) => result);
  }

  #settle({ id = 0, result, error }: Answer): void {
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    if (error === undefined) call?.resolve(result);
    else call?.reject(new Error(error.message));
  }
}

/** Returns the private memory of a process; 0 if it has ended. */
async function privateMiB(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return Number(/RssAnon:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024;
}
