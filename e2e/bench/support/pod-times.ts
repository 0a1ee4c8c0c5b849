import type { Api, PodItem } from '../../harness/api.ts';
import { isReady } from '../../harness/api.ts';

interface Life {
  created: number;
  ready?: number;
  gone?: number;
  address?: string | undefined;
}

/** Records when pods became ready and were deleted, from one watch, in milliseconds. */
export class PodTimes {
  readonly #api: Api;
  readonly #path: string;
  readonly #stop = new AbortController();
  readonly #lives = new Map<string, Life>();
  readonly #waiting = new Set<() => void>();
  #fault: unknown;

  private constructor(api: Api, namespace: string) {
    this.#api = api;
    this.#path = `/api/v1/namespaces/${namespace}/pods`;
  }

  /** Resolves when the watch is established. */
  static async follow(api: Api, namespace: string): Promise<PodTimes> {
    const times = new PodTimes(api, namespace);
    const { metadata } = await api.get<{ readonly metadata: { readonly resourceVersion: string } }>(times.#path);
    void times.#watch(metadata.resourceVersion).catch((error: unknown) => {
      times.#fault = error;
      times.#notify();
    });
    return times;
  }
  close(): void {
    this.#stop.abort();
  }

  async create(pod: object & { readonly metadata: { readonly name: string } }): Promise<void> {
    this.#lives.set(pod.metadata.name, { created: performance.now() });
    await this.#api.json('POST', this.#path, { body: pod });
  }
  /** Returns the time from its creation. */
  ready(name: string): Promise<number> {
    return this.#when(name, ({ created, ready }) => (ready === undefined ? undefined : ready - created));
  }
  async address(name: string): Promise<string> {
    await this.ready(name);
    return this.#when(name, ({ address }) => address);
  }
  /** Deletes a pod and returns the time until it was gone. */
  async remove(name: string, graceSeconds?: number): Promise<number> {
    const from = performance.now();
    await this.#api.json('DELETE', `${this.#path}/${name}${graceSeconds === undefined ? '' : `?gracePeriodSeconds=${graceSeconds}`}`);
    return this.#when(name, ({ gone }) => (gone === undefined ? undefined : gone - from));
  }

  #when<T>(name: string, find: (life: Life) => T | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const life = this.#lives.get(name);
        const found = life && find(life);
        if (found === undefined && this.#fault === undefined) return;
        this.#waiting.delete(look);
        if (found === undefined) reject(new Error(`the watch of pods has ended`, { cause: this.#fault }));
        else resolve(found);
      };
      this.#waiting.add(look);
      look();
    });
  }

  async #watch(from: string): Promise<void> {
    for await (const { type, object } of this.#api.watch<PodItem>(this.#path, from, this.#stop.signal)) {
      const life = this.#lives.get(object.metadata.name);
      if (!life || type === 'BOOKMARK') continue;
      if (type === 'DELETED') life.gone ??= performance.now();
      else if (isReady(object)) {
        life.ready ??= performance.now();
        life.address = object.status.podIP;
      }
      this.#notify();
    }
    throw new Error('the server has ended the watch');
  }
  #notify(): void {
    for (const look of [...this.#waiting]) look();
  }
}
