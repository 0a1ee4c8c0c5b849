import { objectKey } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { Node, PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Client, Lister } from '@oarlock/spi/client';
import type { BindContext } from '@oarlock/spi/scheduling';
import type { AssumeCache } from '../../assume-cache.ts';
import { annotations, isBound } from './claims.ts';
import { reaches } from './volume-search.ts';

/** What binding a pod to a node takes: claims that get a volume there is, and claims for which one is made. */
export interface Decision {
  readonly bind: readonly { readonly claim: PersistentVolumeClaim; readonly volume: PersistentVolume }[];
  readonly provision: readonly PersistentVolumeClaim[];
}

interface Parts {
  readonly volumes: AssumeCache<PersistentVolume>;
  readonly claims: AssumeCache<PersistentVolumeClaim>;
  readonly nodes: Lister<Node>;
  readonly client: Client;
  readonly clock: Clock;
}

interface Assumed {
  readonly volumes: readonly PersistentVolume[];
  readonly claims: readonly PersistentVolumeClaim[];
}

const typedVolume = { apiVersion: 'v1', kind: 'PersistentVolume' } as const;
const typedClaim = { apiVersion: 'v1', kind: 'PersistentVolumeClaim' } as const;

function forClaim(volume: PersistentVolume, { metadata }: PersistentVolumeClaim): PersistentVolume {
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

const onNode = (claim: PersistentVolumeClaim, node: string): PersistentVolumeClaim => ({
  ...typedClaim,
  ...claim,
  metadata: { ...claim.metadata, annotations: { ...claim.metadata?.annotations, [annotations.selectedNode]: node } },
});

/** Takes the volumes of a pod at once in the caches, then in the API, and waits until its claims are bound. */
export class VolumeWriter {
  readonly #parts: Parts;
  readonly #assumed = new Map<string, Assumed>();
  readonly #looks = new Set<() => void>();

  constructor(parts: Parts) {
    this.#parts = parts;
    const changed = () => {
      for (const look of [...this.#looks]) look();
    };
    parts.volumes.onChange(changed);
    parts.claims.onChange(changed);
  }

  assume(pod: string, node: string, { bind, provision }: Decision): void {
    const assumed: Assumed = {
      volumes: bind
        .filter(({ volume, claim }) => volume.spec?.claimRef?.uid !== claim.metadata?.uid)
        .map(({ volume, claim }) => forClaim(volume, claim)),
      claims: provision.map((claim) => onNode(claim, node)),
    };
    for (const volume of assumed.volumes) this.#parts.volumes.assume(volume);
    for (const claim of assumed.claims) this.#parts.claims.assume(claim);
    this.#assumed.set(pod, assumed);
  }

  forget(pod: string): void {
    const { volumes = [], claims = [] } = this.#assumed.get(pod) ?? {};
    this.#assumed.delete(pod);
    for (const volume of volumes) this.#parts.volumes.forget(objectKey(volume));
    for (const claim of claims) this.#parts.claims.forget(objectKey(claim));
  }

  /** What failed, or undefined when all claims are bound. */
  async write(
    pod: string,
    node: string,
    waiting: readonly PersistentVolumeClaim[],
    timeoutMs: number,
    { cause, signal }: BindContext,
  ): Promise<string | undefined> {
    const { volumes = [], claims = [] } = this.#assumed.get(pod) ?? {};
    const client = this.#parts.client.causedBy(cause);
    try {
      for (const volume of volumes) this.#parts.volumes.assume(await client.update(persistentVolumes, volume, { signal }));
      for (const claim of claims) this.#parts.claims.assume(await client.update(persistentVolumeClaims, claim, { signal }));
    } catch (error) {
      return (error as Error).message;
    }
    const failed = await this.#bound(waiting.map(objectKey), node, new Set(claims.map(objectKey)), timeoutMs, signal);
    if (failed === undefined) this.#assumed.delete(pod);
    return failed;
  }

  /** Until both controllers and provisioners have done their part. */
  #bound(
    keys: readonly string[],
    node: string,
    provisioned: ReadonlySet<string>,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const state = (): string | undefined | 'waiting' => {
      for (const key of keys) {
        const failed = this.#check(key, node, provisioned.has(key));
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
        this.#looks.delete(look);
        resolve(result);
      };
      const look = () => {
        const now = state();
        if (now !== 'waiting') end(now);
      };
      const stop = () => end('the scheduler is stopping');
      const timer = this.#parts.clock.after(timeoutMs, () => end('context deadline exceeded'));
      this.#looks.add(look);
      signal.addEventListener('abort', stop, { once: true });
    });
  }

  #check(key: string, node: string, provisioned: boolean): string | undefined {
    const { volumes, claims, nodes } = this.#parts;
    // what is assumed is what was written: it says nothing of what others have done
    const claim = claims.get(key);
    if (claim === undefined) return `persistentvolumeclaim "${key.slice(key.indexOf('/') + 1)}" not found`;
    const at = nodes.get(node);
    if (at === undefined) return `node "${node}" not found`;
    if (provisioned && !isBound(claim)) {
      const selected = claim.metadata?.annotations?.[annotations.selectedNode];
      // the provisioner could not make it there
      if (selected === undefined) return `selectedNode annotation reset for PVC ${JSON.stringify(claim.metadata?.name)}`;
      if (selected !== node)
        return `provisioning failed for PVC ${JSON.stringify(claim.metadata?.name)}: selected node is ${JSON.stringify(selected)} instead of ${JSON.stringify(node)}`;
    }
    if (!isBound(claim)) return 'waiting';
    const volume = volumes.get(claim.spec?.volumeName ?? '');
    if (volume === undefined) return 'waiting';
    return reaches(volume, at)
      ? undefined
      : `pv ${JSON.stringify(volume.metadata?.name)} node affinity doesn't match node ${JSON.stringify(node)}: no matching NodeSelectorTerms`;
  }
}
