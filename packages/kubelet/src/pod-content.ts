import type { Pod } from '@oarlock/api/types/core-v1';
import type { Cause } from '@oarlock/kernel/tracing';
import { environmentReferences } from './environment.ts';
import type { PodRecord } from './pod-record.ts';
import type { SyncPass } from './sync-pass.ts';

/** When a refresh that failed is tried again although nothing changed. Milliseconds. */
const retryMs = 10_000;
const never = Number.POSITIVE_INFINITY;

const showsTrust = ({ spec }: Pod) => spec?.volumes?.some(({ projected }) => projected?.sources?.some((one) => one.clusterTrustBundle));

/** Keeps what a pod was given up to date: the objects it refers to are watched, and volumes follow them, its labels, and the end of tokens. */
export class PodContent {
  readonly #record: PodRecord;
  readonly #wake: (cause: Cause | undefined) => void;
  #stale = false;
  #refreshedAt: number | undefined;
  #holds: (() => void)[] | undefined;

  constructor(record: PodRecord, wake: (cause: Cause | undefined) => void) {
    this.#record = record;
    this.#wake = wake;
  }

  changed(): void {
    this.#stale = true;
  }

  /** Watches the objects that the pod refers to, from its first start on. */
  hold(): void {
    const { runtime, pod, node } = this.#record;
    if (this.#holds !== undefined || !runtime) return;
    const references = [...environmentReferences(pod), ...(runtime.hollow ? [] : node.volumes.references(pod))];
    this.#holds = references.map((reference) =>
      node.objects.hold(reference, (_, cause) => {
        this.#stale = true;
        this.#wake(cause);
      }),
    );
    if (showsTrust(pod))
      this.#holds.push(
        node.trust.hold((cause) => {
          this.#stale = true;
          this.#wake(cause);
        }),
      );
  }

  release(): void {
    for (const release of this.#holds ?? []) release();
    this.#holds = [];
  }

  /** Brings volumes up to date, if something they show has changed. */
  async refresh(pass: SyncPass): Promise<void> {
    const { runtime, pod, node, volumes } = this.#record;
    if (this.#stale && runtime?.hollow === false && volumes.size > 0) {
      this.#stale = false;
      this.#refreshedAt = node.clock.now();
      try {
        await node.volumes.refresh(pod, volumes, { signal: pass.signal, cause: undefined });
      } catch (error) {
        pass.signal.throwIfAborted();
        this.#stale = true;
        pass.retryIn(retryMs);
        const why = error instanceof Error ? error.message : String(error);
        this.#record.event('Warning', 'FailedMount', `MountVolume.SetUp failed for volumes: ${why}`);
      }
    }
    this.#watchTokens();
  }

  /** Tokens are renewed before they end, and drivers are called again that want to be, whether or not anything else happens. */
  #watchTokens(): void {
    const { uid, node, volumes } = this.#record;
    const again = node.volumes.refreshAfterMs(volumes);
    if (again !== undefined) this.#refreshedAt ??= node.clock.now();
    const due = Math.min(node.tokens.dueAt(uid) ?? never, again === undefined ? never : (this.#refreshedAt ?? 0) + again);
    if (!Number.isFinite(due)) return;
    node.deadlines.set(uid, due, () => {
      this.#stale = true;
      this.#wake(undefined);
    });
  }
}
