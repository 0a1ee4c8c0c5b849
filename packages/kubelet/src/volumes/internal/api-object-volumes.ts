import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Pod, Volume, VolumeProjection } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { setGroupOwnership } from '@oarlock/primitives/os/group-ownership';
import {
  VolumeError,
  type MountedTarget,
  type VolumeCallOptions,
  type VolumeDriver,
  type VolumeRequest,
  type VolumeUsage,
} from '@oarlock/spi/volume';
import type { DownwardApiValues } from '../../pod-util/downward-api.ts';
import type { ObjectCache } from '../../api-objects/object-cache.ts';
import type { Resources } from '../../pod-util/resources.ts';
import { writeAtomically, type FileContent, type Payload } from './atomic-writer.ts';
import { DirectoryUsage } from './disk-usage.ts';
import { canChangeOwner } from '@oarlock/primitives/os/user-namespace';
import { setFileOwner } from '../file-ownership.ts';
import { configMapFiles, defaultFileMode, downwardApiFiles, secretFiles } from './api-object-payload.ts';
import type { TokenManager } from '../../api-objects/token-manager.ts';
import type { TrustBundleManager } from '../../api-objects/trust-bundle-manager.ts';

export interface ObjectVolumeSources {
  readonly objects: Pick<ObjectCache, 'get'>;
  readonly tokens: TokenManager;
  readonly trust: Pick<TrustBundleManager, 'certificates'>;
  readonly clock: Clock;
  facts(pod: Pod): DownwardApiValues;
  /** Returns the allocatable resources of the pod's node. */
  allocatable(pod: Pod): Resources;
}

type Sources = readonly { readonly kind: 'ConfigMap' | 'Secret'; readonly key: string }[];

/** The base class of volume drivers whose files are generated from API objects and updated when the objects change. */
abstract class ObjectVolumeDriver implements VolumeDriver {
  readonly requiresRemount = true;
  protected readonly from: ObjectVolumeSources;
  readonly #usage = new DirectoryUsage();
  /** The running writes, keyed by path. Unmount waits for them, so that no file is removed during a write. */
  readonly #writing = new Map<string, Promise<unknown>>();

  constructor(from: ObjectVolumeSources) {
    this.from = from;
  }

  abstract supports(volume: Volume): boolean;
  abstract sourceObjects(request: Pick<VolumeRequest, 'pod' | 'volume'>): Sources;
  protected abstract payload(request: VolumeRequest): Promise<Payload>;
  /** Returns the paths of the files that only the pod's user may read. */
  protected privateFiles(_request: VolumeRequest): readonly string[] {
    return [];
  }

  async mount(request: VolumeRequest, call?: VolumeCallOptions): Promise<{ readonly hostPath: string }> {
    const { path } = request;
    const files = await this.payload(request);
    // the volume may have been unmounted meanwhile
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
    const shared = fsGroup !== undefined && canChangeOwner();
    // the payload includes the group's bits: otherwise every comparison would find a difference
    const payload = shared ? new Map([...files].map(([name, { data, mode }]) => [name, { data, mode: mode | 0o440 }])) : files;
    const user = commonUser(pod);
    await writeAtomically(path, {
      payload,
      now: this.from.clock.now(),
      prepare: async (directory) => {
        if (user !== undefined) for (const file of this.privateFiles(request)) await setFileOwner(join(directory, file), user);
        if (fsGroup !== undefined) await setGroupOwnership(directory, fsGroup, { readonly: true });
      },
    });
  }

  async unmount({ path }: { readonly path: string }): Promise<void> {
    await Promise.allSettled([this.#writing.get(path)]);
    await rm(path, { recursive: true, force: true });
  }

  usage(target: MountedTarget, call?: VolumeCallOptions): Promise<VolumeUsage> {
    return this.#usage.of(target, call);
  }

  protected async configMap(
    pod: Pod,
    name: string | undefined,
    {
      optional,
      items,
      mode,
    }: { readonly optional: boolean | undefined; readonly items: Parameters<typeof configMapFiles>[1]['items']; readonly mode: number },
  ): Promise<Iterable<[string, FileContent]>> {
    const object = await this.from.objects.get('ConfigMap', `${pod.metadata?.namespace}/${name ?? ''}`);
    if (object === undefined && !optional) throw new VolumeError('NotFound', `configmap "${name ?? ''}" not found`);
    return object === undefined ? [] : configMapFiles(object, { items, mode, optional: optional === true });
  }

  protected async secret(
    pod: Pod,
    name: string | undefined,
    {
      optional,
      items,
      mode,
    }: { readonly optional: boolean | undefined; readonly items: Parameters<typeof secretFiles>[1]['items']; readonly mode: number },
  ): Promise<Iterable<[string, FileContent]>> {
    const object = await this.from.objects.get('Secret', `${pod.metadata?.namespace}/${name ?? ''}`);
    if (object === undefined && !optional) throw new VolumeError('NotFound', `secret "${name ?? ''}" not found`);
    return object === undefined ? [] : secretFiles(object, { items, mode, optional: optional === true });
  }
}

/** Returns the user id that all containers of the pod run as; undefined if the containers have different users (KEP-2451). */
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
  sourceObjects({ pod, volume }: Pick<VolumeRequest, 'pod' | 'volume'>): Sources {
    return [{ kind: 'ConfigMap', key: `${pod.metadata?.namespace}/${volume.configMap?.name ?? ''}` }];
  }
  protected override async payload({ pod, volume }: VolumeRequest): Promise<Payload> {
    const { name, optional, items, defaultMode = defaultFileMode } = volume.configMap ?? {};
    return new Map(await this.configMap(pod, name, { optional, items, mode: defaultMode }));
  }
}

export class SecretDriver extends ObjectVolumeDriver {
  supports(volume: Volume): boolean {
    return volume.secret !== undefined;
  }
  sourceObjects({ pod, volume }: Pick<VolumeRequest, 'pod' | 'volume'>): Sources {
    return [{ kind: 'Secret', key: `${pod.metadata?.namespace}/${volume.secret?.secretName ?? ''}` }];
  }
  protected override async payload({ pod, volume }: VolumeRequest): Promise<Payload> {
    const { secretName, optional, items, defaultMode = defaultFileMode } = volume.secret ?? {};
    return new Map(await this.secret(pod, secretName, { optional, items, mode: defaultMode }));
  }
}

export class DownwardApiDriver extends ObjectVolumeDriver {
  supports(volume: Volume): boolean {
    return volume.downwardAPI !== undefined;
  }
  sourceObjects(): Sources {
    return [];
  }
  protected override async payload({ pod, volume }: VolumeRequest): Promise<Payload> {
    const { items = [], defaultMode = defaultFileMode } = volume.downwardAPI ?? {};
    return new Map(
      downwardApiFiles(pod, items, { mode: defaultMode, facts: this.from.facts(pod), allocatable: this.from.allocatable(pod) }),
    );
  }
}

export class ProjectedDriver extends ObjectVolumeDriver {
  supports(volume: Volume): boolean {
    return volume.projected !== undefined;
  }

  sourceObjects({ pod, volume }: Pick<VolumeRequest, 'pod' | 'volume'>): Sources {
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
    if (configMap) return this.configMap(pod, configMap.name, { optional: configMap.optional, items: configMap.items, mode });
    if (secret) return this.secret(pod, secret.name, { optional: secret.optional, items: secret.items, mode });
    if (downwardAPI)
      return downwardApiFiles(pod, downwardAPI.items ?? [], { mode, facts: this.from.facts(pod), allocatable: this.from.allocatable(pod) });
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
