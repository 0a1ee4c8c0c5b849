import type { Pod } from '@oarlock/api/types/core-v1';
import type { SpanContext } from '@oarlock/kernel/tracing';
import { errorText } from '@oarlock/primitives/error-text';
import { environmentObjectReferences } from '../../environment/container-environment.ts';
import type { PodRecord } from '../../pod-record.ts';
import type { SyncPass } from '../../sync-pass.ts';

/** The delay before a failed refresh is retried. Milliseconds. */
const retryMs = 10_000;
const never = Number.POSITIVE_INFINITY;

const usesTrustBundles = ({ spec }: Pod) =>
  spec?.volumes?.some(({ projected }) => projected?.sources?.some((one) => one.clusterTrustBundle));

/** Keeps the content of a pod's mounted volumes current: watches the objects that the pod references, and refreshes tokens before they expire. */
export class VolumeRefresher {
  readonly #record: PodRecord;
  readonly #wake: (spanContext: SpanContext | undefined) => void;
  #stale = false;
  #refreshedAt: number | undefined;
  #releaseWatches: (() => void)[] | undefined;

  constructor(record: PodRecord, wake: (spanContext: SpanContext | undefined) => void) {
    this.#record = record;
    this.#wake = wake;
  }

  markStale(): void {
    this.#stale = true;
  }

  /** Watches the objects that the pod references. Must be called before the first mount. */
  watchObjects(): void {
    const { runtime, pod, node } = this.#record;
    if (this.#releaseWatches !== undefined || !runtime) return;
    const references = [...environmentObjectReferences(pod), ...(runtime.hollow ? [] : node.volumeManager.objectReferences(pod))];
    this.#releaseWatches = references.map((reference) =>
      node.objectCache.watch(reference, (_, spanContext) => {
        this.#stale = true;
        this.#wake(spanContext);
      }),
    );
    if (usesTrustBundles(pod))
      this.#releaseWatches.push(
        node.trustBundleManager.watch((spanContext) => {
          this.#stale = true;
          this.#wake(spanContext);
        }),
      );
  }

  release(): void {
    for (const release of this.#releaseWatches ?? []) release();
    this.#releaseWatches = [];
  }

  /** Refreshes the volumes if an object or token that they contain has changed or expires. */
  async refresh(pass: SyncPass): Promise<void> {
    const { runtime, pod, node, volumes } = this.#record;
    if (this.#stale && runtime?.hollow === false && volumes.size > 0) {
      this.#stale = false;
      this.#refreshedAt = node.clock.now();
      try {
        await node.volumeManager.refresh(pod, volumes, { signal: pass.signal, spanContext: undefined });
      } catch (error) {
        pass.signal.throwIfAborted();
        this.#stale = true;
        pass.retryIn(retryMs);
        const why = errorText(error);
        this.#record.event('Warning', 'FailedMount', `MountVolume.SetUp failed for volumes: ${why}`);
      }
    }
    this.#scheduleRefresh();
  }

  /** Schedules the next renewal of tokens, and the periodic refresh (requiresRepublish) that some volume drivers request. */
  #scheduleRefresh(): void {
    const { uid, node, volumes } = this.#record;
    const again = node.volumeManager.refreshAfterMs(volumes);
    if (again !== undefined) this.#refreshedAt ??= node.clock.now();
    const due = Math.min(node.tokenManager.dueAt(uid) ?? never, again === undefined ? never : (this.#refreshedAt ?? 0) + again);
    if (!Number.isFinite(due)) return;
    node.deadlines.set(uid, due, () => {
      this.#stale = true;
      this.#wake(undefined);
    });
  }
}
