import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Pod, Volume, VolumeProjection } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import {
  VolumeError,
  type MountedTarget,
  type VolumeCall,
  type VolumeDriver,
  type VolumeRequest,
  type VolumeUsage,
} from '@oarlock/spi/volume';
import type { PodFacts } from '../field-values.ts';
import type { ObjectCache } from '../object-cache.ts';
import type { Amounts } from '../resources.ts';
import { writeAtomically, type FileContent, type Payload } from './atomic-writer.ts';
import { DirectoryUsage } from './disk-usage.ts';
import { giveToGroup, giveToUser, mayChangeOwners } from './ownership.ts';
import { configMapFiles, defaultFileMode, downwardFiles, secretFiles } from './payload.ts';
import type { ServiceAccountTokens } from './service-account-tokens.ts';
import type { TrustBundles } from './trust-bundles.ts';

export interface ObjectVolumeSources {
  readonly objects: Pick<ObjectCache, 'get'>;
  readonly tokens: ServiceAccountTokens;
  readonly trust: Pick<TrustBundles, 'certificates'>;
  readonly clock: Clock;
  facts(pod: Pod): PodFacts;
  /** What the node that the pod is on can give. */
  allocatable(pod: Pod): Amounts;
}

type Sources = readonly { readonly kind: 'ConfigMap' | 'Secret'; readonly key: string }[];

/** Volumes whose files are made from API objects, and follow them. */
abstract class ObjectVolumeDriver implements VolumeDriver {
  readonly refreshes = true;
  protected readonly from: ObjectVolumeSources;
  readonly #usage = new DirectoryUsage();
  /** What is being written, by path: a pod that goes does not wait for its mounts, but nothing is removed under a writer's hands. */
  readonly #writing = new Map<string, Promise<unknown>>();

  constructor(from: ObjectVolumeSources) {
    this.from = from;
  }

  abstract supports(volume: Volume): boolean;
  abstract sources(request: Pick<VolumeRequest, 'pod' | 'volume'>): Sources;
  protected abstract payload(request: VolumeRequest): Promise<Payload>;
  /** Files that only the pod's user may read. */
  protected privateFiles(_request: VolumeRequest): readonly string[] {
    return [];
  }

  async mount(request: VolumeRequest, call?: VolumeCall): Promise<{ readonly hostPath: string }> {
    const { path } = request;
    const files = await this.payload(request);
    // what nobody wants any more may have been unmounted meanwhile
    call?.signal?.throwIfAborted();
    const writing = this.#write(request, files);
    this.#writing.set(path, writing);
    try {
      await writing;
    } finally {
      if (this.#writing.get(path) === writing) this.#writing.delete(path);
    }
    return { hostPath: path };
  }

  async #write(request: VolumeRequest, files: Payload): Promise<void> {
    const { path, fsGroup, pod } = request;
    const shared = fsGroup !== undefined && mayChangeOwners();
    // the bits that the group gets belong to what is compared, or every look would find a difference
    const payload = shared ? new Map([...files].map(([name, { data, mode }]) => [name, { data, mode: mode | 0o440 }])) : files;
    const user = commonUser(pod);
    await writeAtomically(path, payload, this.from.clock.now(), async (directory) => {
      if (user !== undefined) for (const file of this.privateFiles(request)) await giveToUser(join(directory, file), user);
      if (fsGroup !== undefined) await giveToGroup(directory, fsGroup, { readonly: true });
    });
  }

  async unmount({ path }: { readonly path: string }): Promise<void> {
    await Promise.allSettled([this.#writing.get(path)]);
    await rm(path, { recursive: true, force: true });
  }

  usage(target: MountedTarget, call?: VolumeCall): Promise<VolumeUsage> {
    return this.#usage.of(target, call);
  }

  protected async configMap(
    pod: Pod,
    name: string | undefined,
    optional: boolean | undefined,
    items: Parameters<typeof configMapFiles>[1]['items'],
    mode: number,
  ): Promise<Iterable<[string, FileContent]>> {
    const object = await this.from.objects.get('ConfigMap', `${pod.metadata?.namespace}/${name ?? ''}`);
    if (object === undefined && !optional) throw new VolumeError('NotFound', `configmap "${name ?? ''}" not found`);
    return object === undefined ? [] : configMapFiles(object, { items, mode, optional: optional === true });
  }

  protected async secret(
    pod: Pod,
    name: string | undefined,
    optional: boolean | undefined,
    items: Parameters<typeof secretFiles>[1]['items'],
    mode: number,
  ): Promise<Iterable<[string, FileContent]>> {
    const object = await this.from.objects.get('Secret', `${pod.metadata?.namespace}/${name ?? ''}`);
    if (object === undefined && !optional) throw new VolumeError('NotFound', `secret "${name ?? ''}" not found`);
    return object === undefined ? [] : secretFiles(object, { items, mode, optional: optional === true });
  }
}

/** The one user that all containers of the pod run as, if there is one (KEP-2451). */
function commonUser(pod: Pod): number | undefined {
  const users = new Set(
    [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])].map(
      (container) => container.securityContext?.runAsUser ?? pod.spec?.securityContext?.runAsUser,
    ),
  );
  const [user] = users;
  return users.size === 1 ? user : undefined;
}

export class ConfigMapDriver extends ObjectVolumeDriver {
  supports(volume: Volume): boolean {
    return volume.configMap !== undefined;
  }
  sources({ pod, volume }: Pick<VolumeRequest, 'pod' | 'volume'>): Sources {
    return [{ kind: 'ConfigMap', key: `${pod.metadata?.namespace}/${volume.configMap?.name ?? ''}` }];
  }
  protected override async payload({ pod, volume }: VolumeRequest): Promise<Payload> {
    const { name, optional, items, defaultMode = defaultFileMode } = volume.configMap ?? {};
    return new Map(await this.configMap(pod, name, optional, items, defaultMode));
  }
}

export class SecretDriver extends ObjectVolumeDriver {
  supports(volume: Volume): boolean {
    return volume.secret !== undefined;
  }
  sources({ pod, volume }: Pick<VolumeRequest, 'pod' | 'volume'>): Sources {
    return [{ kind: 'Secret', key: `${pod.metadata?.namespace}/${volume.secret?.secretName ?? ''}` }];
  }
  protected override async payload({ pod, volume }: VolumeRequest): Promise<Payload> {
    const { secretName, optional, items, defaultMode = defaultFileMode } = volume.secret ?? {};
    return new Map(await this.secret(pod, secretName, optional, items, defaultMode));
  }
}

export class DownwardApiDriver extends ObjectVolumeDriver {
  supports(volume: Volume): boolean {
    return volume.downwardAPI !== undefined;
  }
  sources(): Sources {
    return [];
  }
  protected override async payload({ pod, volume }: VolumeRequest): Promise<Payload> {
    const { items = [], defaultMode = defaultFileMode } = volume.downwardAPI ?? {};
    return new Map(downwardFiles(pod, items, defaultMode, this.from.facts(pod), this.from.allocatable(pod)));
  }
}

export class ProjectedDriver extends ObjectVolumeDriver {
  supports(volume: Volume): boolean {
    return volume.projected !== undefined;
  }

  sources({ pod, volume }: Pick<VolumeRequest, 'pod' | 'volume'>): Sources {
    const namespace = pod.metadata?.namespace;
    return (volume.projected?.sources ?? []).flatMap(
      ({ configMap, secret }): Sources => [
        ...(configMap ? [{ kind: 'ConfigMap' as const, key: `${namespace}/${configMap.name ?? ''}` }] : []),
        ...(secret ? [{ kind: 'Secret' as const, key: `${namespace}/${secret.name ?? ''}` }] : []),
      ],
    );
  }

  protected override async payload(request: VolumeRequest): Promise<Payload> {
    const { sources = [], defaultMode = defaultFileMode } = request.volume.projected ?? {};
    const files = new Map<string, FileContent>();
    for (const source of sources) for (const [path, file] of await this.#project(request, source, defaultMode)) files.set(path, file);
    return files;
  }

  protected override privateFiles({ volume }: VolumeRequest): readonly string[] {
    return (volume.projected?.sources ?? []).flatMap(({ serviceAccountToken }) => (serviceAccountToken ? [serviceAccountToken.path] : []));
  }

  async #project(
    { pod, fsGroup }: VolumeRequest,
    { configMap, secret, downwardAPI, serviceAccountToken, clusterTrustBundle }: VolumeProjection,
    mode: number,
  ): Promise<Iterable<[string, FileContent]>> {
    if (configMap) return this.configMap(pod, configMap.name, configMap.optional, configMap.items, mode);
    if (secret) return this.secret(pod, secret.name, secret.optional, secret.items, mode);
    if (downwardAPI) return downwardFiles(pod, downwardAPI.items ?? [], mode, this.from.facts(pod), this.from.allocatable(pod));
    if (serviceAccountToken) {
      const { path, audience, expirationSeconds } = serviceAccountToken;
      const token = await this.from.tokens.token(pod, {
        ...(audience !== undefined && { audience }),
        ...(expirationSeconds !== undefined && { expirationSeconds }),
      });
      const owned = fsGroup !== undefined || commonUser(pod) !== undefined;
      return [[path, { data: Buffer.from(token, 'utf8'), mode: owned ? 0o600 : mode }]];
    }
    if (clusterTrustBundle) {
      const data = await this.from.trust.certificates(clusterTrustBundle);
      return [[clusterTrustBundle.path, { data: data ?? Buffer.alloc(0), mode }]];
    }
    throw new VolumeError('InvalidArgument', 'this kind of projected source is not supported');
  }
}
