import { Api, type Item } from '../../harness/api.ts';

interface ConfigMap extends Item {
  readonly data?: Readonly<Record<string, string>>;
}

/** The state of one object: the last acknowledged write, and later writes without a response. */
interface Known {
  acknowledged: string | undefined;
  possible: (string | undefined)[];
}

/** Writes continuously, across restarts, and records acknowledged writes. Each worker has its own objects, so that the order is known. */
export class Writer {
  static #writers = 0;
  /** Unique names: objects of an earlier writer must not look like lost writes of this one. */
  readonly #prefix = `w${(Writer.#writers += 1)}`;
  readonly #kubeconfig: string;
  readonly #path: string;
  readonly #known = new Map<string, Known>();
  readonly #stop = new AbortController();
  readonly #workers: Promise<void>[] = [];
  acknowledged = 0;
  unanswered = 0;

  constructor(kubeconfig: string, namespace: string) {
    this.#kubeconfig = kubeconfig;
    this.#path = `/api/v1/namespaces/${namespace}/configmaps`;
  }

  start(workers: number, random: () => number): void {
    for (let worker = 0; worker < workers; worker++) this.#workers.push(this.#work(worker, random));
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#workers);
  }

  async #work(worker: number, random: () => number): Promise<void> {
    let api = await Api.of(this.#kubeconfig);
    for (let step = 0; !this.#stop.signal.aborted; step++) {
      const name = `${this.#prefix}-${worker}-${Math.floor(random() * 40)}`;
      const known = this.#known.get(name) ?? { acknowledged: undefined, possible: [] };
      this.#known.set(name, known);
      const value = `${step}`;
      const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { value } };
      const remove = known.acknowledged !== undefined && random() < 0.2;
      const wanted = remove ? undefined : value;
      known.possible.push(wanted);
      try {
        const { status } = remove
          ? await api.call('DELETE', `${this.#path}/${name}`, { timeoutMs: 10_000 })
          : await this.#put(api, object, name);
        // a Conflict or NotFound is the result of an earlier write without a response; the next pass reads the state
        if (status >= 200 && status < 300) {
          known.acknowledged = wanted;
          known.possible = [];
          this.acknowledged++;
        } else if (status >= 500) this.unanswered++;
        else if (status !== 404 && status !== 409) throw new Error(`${name}: status ${status}`);
      } catch (error) {
        if (!/ECONN|EPIPE|socket hang up|socket disconnected|no answer within|closed|aborted/i.test(String(error))) throw error;
        this.unanswered++;
        api.close();
        api = await Api.of(this.#kubeconfig);
        await new Promise((resolve) => {
          setTimeout(resolve, 20);
        });
      }
    }
    api.close();
  }

  /** Creates or replaces the object. */
  async #put(api: Api, object: object, name: string): Promise<{ readonly status: number }> {
    const replaced = await api.call('PUT', `${this.#path}/${name}`, { body: object, timeoutMs: 10_000 });
    return replaced.status === 404 ? api.call('POST', this.#path, { body: object, timeoutMs: 10_000 }) : replaced;
  }

  /** Returns the differences from the acknowledged writes; empty if nothing was lost. */
  async losses(api: Api): Promise<readonly string[]> {
    const { items } = await api.get<{ readonly items: readonly ConfigMap[] }>(this.#path);
    const stored = new Map(items.map((item) => [item.metadata.name, item.data?.['value']]));
    return [...this.#known].flatMap(([name, { acknowledged, possible }]) => {
      const is = stored.get(name);
      return [acknowledged, ...possible].includes(is)
        ? []
        : [
            `${name} is ${is ?? 'absent'}; acknowledged: ${acknowledged ?? 'absent'}${possible.length > 0 ? `, perhaps ${possible.map((each) => each ?? 'absent').join(', ')}` : ''}`,
          ];
    });
  }
}

/** Watches the same objects across restarts, always from the last version. */
export class Follower {
  readonly #kubeconfig: string;
  readonly #path: string;
  readonly #stop = new AbortController();
  #done: Promise<void> | undefined;
  #revision = '';
  #relists = 0;
  readonly #faults: string[] = [];
  readonly #state = new Map<string, { readonly value: string; readonly revision: bigint }>();

  constructor(kubeconfig: string, namespace: string) {
    this.#kubeconfig = kubeconfig;
    this.#path = `/api/v1/namespaces/${namespace}/configmaps`;
  }

  start(): void {
    this.#done = this.#follow();
  }
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#done;
  }
  get faults(): readonly string[] {
    return this.#faults;
  }
  /** The number of lists, the first included. */
  get relists(): number {
    return this.#relists;
  }
  get state(): ReadonlyMap<string, string> {
    return new Map([...this.#state].map(([name, { value }]) => [name, value]));
  }

  async #follow(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const api = await Api.of(this.#kubeconfig);
      try {
        if (this.#revision === '') await this.#list(api);
        for await (const { type, object } of api.watch<ConfigMap>(this.#path, this.#revision, this.#stop.signal)) {
          if (type === 'ERROR') {
            this.#revision = '';
            break;
          }
          this.#take(type, object);
        }
      } catch (error) {
        if (String(error).includes('answered 410')) this.#revision = '';
        if (!this.#stop.signal.aborted)
          await new Promise((resolve) => {
            setTimeout(resolve, 50);
          });
      } finally {
        api.close();
      }
    }
  }

  async #list(api: Api): Promise<void> {
    const list = await api.get<{ readonly metadata: { readonly resourceVersion: string }; readonly items: readonly ConfigMap[] }>(
      this.#path,
    );
    this.#relists++;
    this.#state.clear();
    for (const item of list.items)
      this.#state.set(item.metadata.name, { value: item.data?.['value'] ?? '', revision: BigInt(item.metadata.resourceVersion ?? '0') });
    this.#revision = list.metadata.resourceVersion;
  }

  #take(type: string, object: ConfigMap): void {
    const revision = object.metadata.resourceVersion ?? '';
    if (type !== 'BOOKMARK') {
      const { name } = object.metadata;
      const known = this.#state.get(name);
      if (BigInt(revision) <= BigInt(this.#revision)) this.#faults.push(`${type} ${name} at ${revision} came after ${this.#revision}`);
      if ((type === 'ADDED') !== (known === undefined))
        this.#faults.push(
          `${type} ${name} at ${revision}, which was ${known === undefined ? 'not there' : `there since ${known.revision}`}`,
        );
      if (type === 'DELETED') this.#state.delete(name);
      else this.#state.set(name, { value: object.data?.['value'] ?? '', revision: BigInt(revision) });
    }
    this.#revision = revision;
  }
}
