import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { StoredObject } from './stored-object.ts';

/** One change of one object, in revision order. */
export interface Change {
  readonly revision: number;
  readonly key: string;
  /** The new state; absent if the object was deleted. */
  readonly now: StoredObject | undefined;
  readonly before: StoredObject | undefined;
  /** The time of receipt, in milliseconds of this process's clock. */
  readonly at: number;
}

interface KeyValue {
  readonly key: string;
  readonly value?: string;
  readonly mod_revision: string;
}
interface Answer {
  readonly result?: {
    readonly canceled?: boolean;
    readonly cancel_reason?: string;
    readonly events?: readonly { readonly type?: string; readonly kv: KeyValue }[];
  };
}

const retryMs = 100;
const base64 = (text: string) => Buffer.from(text).toString('base64');

/**
 * Reads every change of the store from etcd itself, so that no crashed or hanging API server hides any. It starts at the first revision and
 * resumes where it stopped: no change is missed or repeated.
 */
export class History {
  readonly #endpoint: string;
  readonly #prefix: string;
  readonly #objects = new Map<string, StoredObject>();
  readonly #onChange: (change: Change) => void;
  #seen = 0;

  /** @param onChange is called for each change, in order */
  constructor(endpoint: string, prefix: string, onChange: (change: Change) => void) {
    this.#endpoint = endpoint;
    this.#prefix = prefix;
    this.#onChange = onChange;
  }

  get revision(): number {
    return this.#seen;
  }

  /** Runs until the signal aborts. @throws Error if etcd has compacted a revision that was not read */
  async follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#watch(signal);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Error && error.message.startsWith('etcd ended the watch')) throw error;
        await delay(retryMs, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const body = JSON.stringify({
      create_request: { key: base64(`${this.#prefix}/`), range_end: base64(`${this.#prefix}0`), start_revision: String(this.#seen + 1) },
    });
    const response = await new Promise<AsyncIterable<Buffer>>((resolve, reject) => {
      const call = request(new URL('/v3/watch', this.#endpoint), { method: 'POST', signal });
      call.once('error', reject).once('response', resolve).end(body);
    });
    let rest = '';
    const decoder = new TextDecoder();
    for await (const chunk of response) {
      const lines = `${rest}${decoder.decode(chunk, { stream: true })}`.split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line !== '') this.#take(JSON.parse(line) as Answer);
    }
  }

  #take({ result }: Answer): void {
    if (result?.canceled) throw new Error(`etcd ended the watch: ${result.cancel_reason ?? ''}`);
    for (const { type, kv } of result?.events ?? []) {
      const key = Buffer.from(kv.key, 'base64').toString();
      const before = this.#objects.get(key);
      const now = type === 'DELETE' ? undefined : thingOf(kv.value);
      this.#seen = Number(kv.mod_revision);
      if (now === undefined) this.#objects.delete(key);
      else this.#objects.set(key, now);
      if (now ?? before) this.#onChange({ revision: this.#seen, key, now, before, at: performance.now() });
    }
  }
}

/** Ignores keys of the store that hold no object. */
function thingOf(value: string | undefined): StoredObject | undefined {
  const text = Buffer.from(value ?? '', 'base64').toString();
  if (!text.startsWith('{"kind"')) return undefined;
  return JSON.parse(text) as StoredObject;
}
