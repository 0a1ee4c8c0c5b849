import type { Api, Item, PodItem } from '../harness/api.ts';
import { patienceMs } from '../harness/until.ts';

interface ContainerStatus {
  readonly name: string;
  readonly ready: boolean;
  readonly started?: boolean;
  readonly restartCount: number;
  readonly containerID?: string;
  readonly imageID?: string;
  readonly allocatedResources?: Readonly<Record<string, string>>;
  readonly resources?: { readonly limits?: Readonly<Record<string, string>>; readonly requests?: Readonly<Record<string, string>> };
  readonly state?: {
    readonly running?: { readonly startedAt: string };
    readonly waiting?: { readonly reason?: string; readonly message?: string };
    readonly terminated?: Ended;
  };
  readonly lastState?: { readonly terminated?: Ended };
}
interface Ended {
  readonly exitCode: number;
  readonly reason?: string;
  readonly message?: string;
  readonly startedAt?: string;
  readonly finishedAt?: string;
}
export interface FullPod extends Omit<PodItem, 'status' | 'metadata'> {
  readonly metadata: Item['metadata'] & { readonly generation?: number; readonly deletionGracePeriodSeconds?: number };
  readonly status: Omit<PodItem['status'], 'containerStatuses'> & {
    readonly podIPs?: readonly { readonly ip: string }[];
    readonly hostIPs?: readonly { readonly ip: string }[];
    readonly qosClass?: string;
    readonly observedGeneration?: number;
    readonly containerStatuses?: readonly ContainerStatus[];
    readonly initContainerStatuses?: readonly ContainerStatus[];
    readonly ephemeralContainerStatuses?: readonly ContainerStatus[];
  };
}

/** Follows the pods of a namespace with one watch for all tests of a file. */
export class PodFollower {
  readonly #api: Api;
  readonly #path: string;
  readonly #stop = new AbortController();
  readonly #pods = new Map<string, FullPod>();
  readonly #waiting = new Set<() => void>();

  constructor(api: Api, path: string) {
    this.#api = api;
    this.#path = path;
    void this.#follow();
  }

  close(): void {
    this.#stop.abort();
  }
  get(name: string): FullPod | undefined {
    return this.#pods.get(name);
  }

  /** @throws Error with the latest state, after the deadline */
  async until(name: string, what: string, wanted: (pod: FullPod) => boolean, timeoutMs = patienceMs): Promise<FullPod> {
    return this.#wait(`${name} to ${what}`, name, (pod) => (pod !== undefined && wanted(pod) ? pod : undefined), timeoutMs);
  }
  async untilGone(name: string, timeoutMs = patienceMs): Promise<void> {
    await this.#wait(`${name} to go`, name, (pod) => pod === undefined || undefined, timeoutMs);
  }

  #wait<T>(what: string, name: string, find: (pod: FullPod | undefined) => T | undefined, timeoutMs: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const look = () => {
        try {
          const found = find(this.#pods.get(name));
          if (found === undefined) return;
          settle();
          resolve(found);
        } catch (error) {
          settle();
          reject(error as Error);
        }
      };
      const settle = () => {
        this.#waiting.delete(look);
        clearTimeout(timer);
      };
      const timer = setTimeout(() => {
        settle();
        reject(new Error(`waited ${timeoutMs} ms for ${what}; last seen: ${JSON.stringify(this.#pods.get(name)?.status)}`));
      }, timeoutMs);
      this.#waiting.add(look);
      look();
    });
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        const list = await this.#api.get<{ readonly metadata: { readonly resourceVersion: string }; readonly items: readonly FullPod[] }>(
          this.#path,
        );
        this.#pods.clear();
        for (const pod of list.items) this.#pods.set(pod.metadata.name, pod);
        this.#notify();
        for await (const { type, object } of this.#api.watch<Item>(this.#path, list.metadata.resourceVersion, signal)) {
          if (type === 'ERROR') break;
          if (type === 'BOOKMARK') continue;
          if (type === 'DELETED') this.#pods.delete(object.metadata.name);
          else this.#pods.set(object.metadata.name, object as unknown as FullPod);
          this.#notify();
        }
      } catch (error) {
        if (!signal.aborted && !(error instanceof Error)) throw error;
        await new Promise((resolve) => {
          setTimeout(resolve, 100);
        });
      }
    }
  }

  #notify(): void {
    for (const look of [...this.#waiting]) look();
  }
}
