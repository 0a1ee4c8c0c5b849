import { setTimeout as delay } from 'node:timers/promises';
import type { Api, Item } from '../../harness/api.ts';

interface Node extends Item {
  readonly spec: { readonly taints?: readonly { readonly key: string; readonly effect: string }[] };
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}
interface Known {
  readonly ready: boolean;
  readonly emptied: boolean;
}

const retryMs = 200;
const isReady = ({ status }: Node) => status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;
const isEmptied = ({ spec }: Node) =>
  spec.taints?.some(({ key, effect }) => key === 'node.kubernetes.io/unreachable' && effect === 'NoExecute') ?? false;

/** Counts nodes, ready nodes, and nodes whose pods are evicted, event by event, because there are thousands. */
export class NodeCounter {
  readonly #api: Api;
  readonly #known = new Map<string, Known>();
  readonly #waiting = new Set<() => void>();
  #ready = 0;
  #emptied = 0;

  constructor(api: Api) {
    this.#api = api;
  }

  get all(): number {
    return this.#known.size;
  }
  get ready(): number {
    return this.#ready;
  }
  get emptied(): number {
    return this.#emptied;
  }
  toString(): string {
    return `${this.#ready} of ${this.all} nodes ready, ${this.#emptied} emptied`;
  }

  /** Watches the nodes until the signal aborts; lists again when the watch is cut. */
  async follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const list = await this.#api.get<{ readonly metadata: { readonly resourceVersion: string }; readonly items: readonly Node[] }>(
          '/api/v1/nodes',
        );
        const names = new Set(list.items.map(({ metadata }) => metadata.name));
        for (const name of this.#known.keys()) if (!names.has(name)) this.#set(name, undefined);
        for (const node of list.items) this.#set(node.metadata.name, node);
        for await (const { type, object } of this.#api.watch<Node>('/api/v1/nodes', list.metadata.resourceVersion, signal)) {
          if (type === 'ERROR') break;
          if (type !== 'BOOKMARK') this.#set(object.metadata.name, type === 'DELETED' ? undefined : object);
        }
      } catch (error) {
        if (signal.aborted) return;
        console.log(`the nodes are listed anew: ${String(error).slice(0, 200)}`);
        await delay(retryMs, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  /** Resolves when the condition holds. @throws the signal's reason */
  until(wanted: (counter: NodeCounter) => boolean, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (settle: () => void) => {
        this.#waiting.delete(look);
        signal.removeEventListener('abort', abort);
        settle();
      };
      const look = () => {
        if (wanted(this)) end(resolve);
      };
      const abort = () => end(() => reject(signal.reason as Error));
      signal.addEventListener('abort', abort, { once: true });
      this.#waiting.add(look);
      if (signal.aborted) abort();
      else look();
    });
  }

  #set(name: string, node: Node | undefined): void {
    const before = this.#known.get(name);
    const now = node && { ready: isReady(node), emptied: isEmptied(node) };
    if (now === undefined) this.#known.delete(name);
    else this.#known.set(name, now);
    this.#ready += Number(now?.ready ?? false) - Number(before?.ready ?? false);
    this.#emptied += Number(now?.emptied ?? false) - Number(before?.emptied ?? false);
    for (const look of [...this.#waiting]) look();
  }
}
