import { setTimeout as delay } from 'node:timers/promises';
import { Api, ApiError, type Item } from '../../harness/api.ts';

interface Event {
  readonly revision: number;
  readonly text: string;
}

/** A client that watches one kind across restarts and cut connections, and reports every difference from what was stored. */
export class WatchVerifier {
  readonly faults: string[] = [];
  relists = 0;
  compared = 0;
  readonly #kubeconfig: string;
  readonly #path: string;
  readonly #kind: string;
  readonly #stored: Event[] = [];
  readonly #seen: (Event | { readonly from: number })[] = [];
  #revision = 0;

  constructor(kubeconfig: string, path: string, kind: string) {
    this.#kubeconfig = kubeconfig;
    this.#path = path;
    this.#kind = kind;
  }

  get kind(): string {
    return this.#kind;
  }
  /** The revision up to which it has received everything. */
  get revision(): number {
    return this.#revision;
  }

  /** The changes in the store, in order. */
  stored(revision: number, type: string, name: string): void {
    this.#stored.push({ revision, text: `${type} ${name}` });
    this.#compare();
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const api = await Api.of(this.#kubeconfig);
      try {
        if (this.#revision === 0) await this.#list(api);
        for await (const { type, object } of api.watch<Item>(this.#path, String(this.#revision), signal)) {
          if (type === 'ERROR') {
            this.#revision = 0;
            break;
          }
          const revision = Number(object.metadata.resourceVersion);
          if (revision < this.#revision)
            this.faults.push(`${type} ${object.metadata.name ?? ''} at ${revision} came after ${this.#revision}`);
          this.#revision = revision;
          if (type === 'BOOKMARK') continue;
          this.#seen.push({ revision, text: `${type} ${object.metadata.namespace ?? ''}/${object.metadata.name}` });
          this.#compare();
        }
      } catch (error) {
        if (error instanceof ApiError && error.status === 410) this.#revision = 0;
        await delay(50, undefined, { signal }).catch(() => undefined);
      } finally {
        api.close();
      }
    }
  }

  async #list(api: Api): Promise<void> {
    const { metadata } = await api.get<{ readonly metadata: { readonly resourceVersion: string } }>(this.#path);
    this.relists++;
    this.#revision = Number(metadata.resourceVersion);
    this.#seen.push({ from: this.#revision });
  }

  /** Compares as far as both are known. */
  #compare(): void {
    for (;;) {
      const [seen] = this.#seen;
      const [stored] = this.#stored;
      if (seen === undefined || stored === undefined) return;
      if ('from' in seen) {
        if (stored.revision <= seen.from) {
          this.#stored.shift();
          continue;
        }
        this.#seen.shift();
        continue;
      }
      this.compared++;
      if (seen.revision === stored.revision && seen.text === stored.text) {
        this.#seen.shift();
        this.#stored.shift();
        continue;
      }
      this.faults.push(
        `a watch of ${this.#kind} received ${seen.text} at ${seen.revision}; stored was ${stored.text} at ${stored.revision}`,
      );
      if (seen.revision <= stored.revision) this.#seen.shift();
      if (stored.revision <= seen.revision) this.#stored.shift();
    }
  }
}
