import { objectKey } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { Node, PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Client, Lister } from '@oarlock/spi/client';
import type { BindContext } from '@oarlock/spi/scheduling';
import type { AssumeCache } from '../../cache/assume-cache.ts';
import { annotations, isFullyBound } from './pod-volume-claims.ts';
import { matchesNodeAffinity } from './volume-matching.ts';

/** The decisions for a pod's PersistentVolumeClaims on a node: claims to bind to existing volumes, and claims to provision dynamically. */
export interface PodVolumes {
  readonly staticBindings: readonly { readonly claim: PersistentVolumeClaim; readonly volume: PersistentVolume }[];
  readonly dynamicProvisions: readonly PersistentVolumeClaim[];
}

interface VolumeBinderOptions {
  readonly volumes: AssumeCache<PersistentVolume>;
  readonly claims: AssumeCache<PersistentVolumeClaim>;
  readonly nodes: Lister<Node>;
  readonly client: Client;
  readonly clock: Clock;
}

interface AssumedVolumes {
  readonly volumes: readonly PersistentVolume[];
  readonly claims: readonly PersistentVolumeClaim[];
}

const typedVolume = { apiVersion: 'v1', kind: 'PersistentVolume' } as const;
const typedClaim = { apiVersion: 'v1', kind: 'PersistentVolumeClaim' } as const;

function withClaimRef(volume: PersistentVolume, { metadata }: PersistentVolumeClaim): PersistentVolume {
  const { name = '', namespace = '', uid = '', resourceVersion = '' } = metadata ?? {};
  return {
    ...typedVolume,
    ...volume,
    metadata: {
      ...volume.metadata,
      annotations: {
        ...volume.metadata?.annotations,
        ...(volume.spec?.claimRef === undefined && { [annotations.boundByController]: 'yes' }),
      },
    },
    spec: {
      ...volume.spec,
      claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace, name, uid, resourceVersion },
    },
  };
}

const withSelectedNode = (claim: PersistentVolumeClaim, node: string): PersistentVolumeClaim => ({
  ...typedClaim,
  ...claim,
  metadata: { ...claim.metadata, annotations: { ...claim.metadata?.annotations, [annotations.selectedNode]: node } },
});

/** The volumes of a pod, and the context of its binding. */
export interface PodVolumeBinding {
  readonly node: string;
  readonly claimsToBind: readonly PersistentVolumeClaim[];
  readonly timeoutMs: number;
  readonly context: BindContext;
}

/** Assumes the volume bindings of pods in the caches, writes them to the API server, and waits until the claims are bound. */
export class VolumeBinder {
  readonly #options: VolumeBinderOptions;
  readonly #assumed = new Map<string, AssumedVolumes>();
  readonly #checks = new Set<() => void>();

  constructor(options: VolumeBinderOptions) {
    this.#options = options;
    const changed = () => {
      for (const check of [...this.#checks]) check();
    };
    options.volumes.onChange(changed);
    options.claims.onChange(changed);
  }

  assumePodVolumes(pod: string, node: string, { staticBindings, dynamicProvisions }: PodVolumes): void {
    const assumed: AssumedVolumes = {
      volumes: staticBindings
        .filter(({ volume, claim }) => volume.spec?.claimRef?.uid !== claim.metadata?.uid)
        .map(({ volume, claim }) => withClaimRef(volume, claim)),
      claims: dynamicProvisions.map((claim) => withSelectedNode(claim, node)),
    };
    for (const volume of assumed.volumes) this.#options.volumes.assume(volume);
    for (const claim of assumed.claims) this.#options.claims.assume(claim);
    this.#assumed.set(pod, assumed);
  }

  revertAssumedPodVolumes(pod: string): void {
    const { volumes = [], claims = [] } = this.#assumed.get(pod) ?? {};
    this.#assumed.delete(pod);
    for (const volume of volumes) this.#options.volumes.forget(objectKey(volume));
    for (const claim of claims) this.#options.claims.forget(objectKey(claim));
  }

  /** Writes the assumed bindings and waits until `claimsToBind` are bound. Resolves with an error message, or undefined on success. */
  async bindPodVolumes(
    pod: string,
    { node, claimsToBind, timeoutMs, context: { spanContext, signal } }: PodVolumeBinding,
  ): Promise<string | undefined> {
    const { volumes = [], claims = [] } = this.#assumed.get(pod) ?? {};
    const client = this.#options.client.withSpanContext(spanContext);
    try {
      for (const volume of volumes) this.#options.volumes.assume(await client.update(persistentVolumes, volume, { signal }));
      for (const claim of claims) this.#options.claims.assume(await client.update(persistentVolumeClaims, claim, { signal }));
    } catch (error) {
      return (error as Error).message;
    }
    const failed = await this.#waitUntilBound(claimsToBind.map(objectKey), node, {
      provisioned: new Set(claims.map(objectKey)),
      timeoutMs,
      signal,
    });
    if (failed === undefined) this.#assumed.delete(pod);
    return failed;
  }

  /** Waits until the PersistentVolume controller and the provisioners have bound the claims. */
  #waitUntilBound(
    keys: readonly string[],
    node: string,
    {
      provisioned,
      timeoutMs,
      signal,
    }: { readonly provisioned: ReadonlySet<string>; readonly timeoutMs: number; readonly signal: AbortSignal },
  ): Promise<string | undefined> {
    const state = (): string | undefined | 'waiting' => {
      for (const key of keys) {
        const failed = this.#checkBinding(key, node, provisioned.has(key));
        if (failed !== undefined) return failed;
      }
      return undefined;
    };
    const first = state();
    if (first !== 'waiting') return Promise.resolve(first);
    return new Promise((resolve) => {
      const end = (result: string | undefined) => {
        timer.cancel();
        signal.removeEventListener('abort', stop);
        this.#checks.delete(check);
        resolve(result);
      };
      const check = () => {
        const now = state();
        if (now !== 'waiting') end(now);
      };
      const stop = () => end('the scheduler is stopping');
      const timer = this.#options.clock.after(timeoutMs, () => end('context deadline exceeded'));
      this.#checks.add(check);
      signal.addEventListener('abort', stop, { once: true });
    });
  }

  #checkBinding(key: string, node: string, provisioned: boolean): string | undefined {
    const { volumes, claims, nodes } = this.#options;
    // reads the assume cache: an assumed claim is replaced as soon as the informer observes a newer version
    const claim = claims.get(key);
    if (claim === undefined) return `persistentvolumeclaim "${key.slice(key.indexOf('/') + 1)}" not found`;
    const at = nodes.get(node);
    if (at === undefined) return `node "${node}" not found`;
    if (provisioned && !isFullyBound(claim)) {
      const selected = claim.metadata?.annotations?.[annotations.selectedNode];
      // the provisioner resets the annotation if it cannot provision on the node
      if (selected === undefined) return `selectedNode annotation reset for PVC ${JSON.stringify(claim.metadata?.name)}`;
      if (selected !== node)
        return `provisioning failed for PVC ${JSON.stringify(claim.metadata?.name)}: selected node is ${JSON.stringify(selected)} instead of ${JSON.stringify(node)}`;
    }
    if (!isFullyBound(claim)) return 'waiting';
    const volume = volumes.get(claim.spec?.volumeName ?? '');
    if (volume === undefined) return 'waiting';
    return matchesNodeAffinity(volume, at)
      ? undefined
      : `pv ${JSON.stringify(volume.metadata?.name)} node affinity doesn't match node ${JSON.stringify(node)}: no matching NodeSelectorTerms`;
  }
}
